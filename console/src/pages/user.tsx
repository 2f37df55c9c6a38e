/** One user: tags, password, permissions, limits. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { del, put } from "../api";
import { go } from "../place";
import { usePoll } from "../poll";
import { url } from "../route";
import { session } from "../state";
import type { Permission, TopicPermission, User } from "../types";
import { Badge, Card, Empty, Facts, PageHead, Ready, Rows } from "../ui/basics";
import { confirmed } from "../ui/dialog";
import { Field, Form } from "../ui/form";
import { attempt } from "../ui/notices";
import { VhostField } from "../ui/vhost-field";
import { LimitRows } from "./limits";
import { PermissionForm, PermissionRows } from "./permissions";
import { TagChecks } from "./users";

export function UserPage(props: { name: string }): JSX.Element {
  const polled = usePoll<User>(url(["users", props.name]), 0);
  const permissions = usePoll<Permission[]>(url(["users", props.name, "permissions"]), 0);
  const topics = usePoll<TopicPermission[]>(url(["users", props.name, "topic-permissions"]), 0);
  const remove = async (): Promise<void> => {
    const sure = await confirmed({
      title: "Delete this user?",
      text: "Its connections are closed. Queues and messages stay.",
      action: "Delete user",
      typed: props.name,
    });
    if (sure && (await attempt(() => del(url(["users", props.name])), "The user is deleted.")))
      go(["users"]);
  };
  return (
    <>
      <PageHead kind="User" title={props.name}>
        {props.name !== session.value?.name && (
          <button type="button" class="danger" onClick={() => void remove()}>
            Delete…
          </button>
        )}
      </PageHead>
      <Ready polled={polled}>
        {(user) => <Account key={user.tags.join()} user={user} onDone={polled.refresh} />}
      </Ready>
      <Card title="Permissions" flush>
        <Ready polled={permissions}>
          {(rows) => <PermissionRows rows={rows} side="vhost" onChange={permissions.refresh} />}
        </Ready>
        <div class="pad">
          <PermissionForm user={props.name} onDone={permissions.refresh} />
        </div>
      </Card>
      <Card title="Routing keys it may use" flush>
        <Ready polled={topics}>
          {(rows) => <TopicRows rows={rows} onChange={topics.refresh} />}
        </Ready>
        <div class="pad">
          <TopicForm user={props.name} onDone={topics.refresh} />
        </div>
      </Card>
      <LimitRows kind="user" name={props.name} />
    </>
  );
}

function Account(props: { user: User; onDone: () => void }): JSX.Element {
  const { user } = props;
  const [tags, setTags] = useState(user.tags);
  const [password, setPassword] = useState("");
  const change = async (): Promise<void> => {
    const body = { tags: tags.join(","), ...(password ? { password } : {}) };
    if (await attempt(() => put(url(["users", user.name]), body), "Changed.")) {
      setPassword("");
      props.onDone();
    }
  };
  return (
    <Card title="Account">
      <div class="stack">
        <Facts
          rows={[
            [
              "Tags",
              user.tags.length > 0
                ? user.tags.map((tag) => <Badge key={tag}>{tag}</Badge>)
                : "none",
            ],
            ["Password kept as", user.hashing_algorithm.replace(/^.*_password_hashing_/, "")],
          ]}
        />
        <Form action="Change" onSend={change}>
          <TagChecks tags={tags} onTags={setTags} />
          <Field
            label="New password"
            type="password"
            autocomplete="new-password"
            value={password}
            onValue={setPassword}
            placeholder="unchanged"
          />
        </Form>
      </div>
    </Card>
  );
}

function TopicRows(props: { rows: TopicPermission[]; onChange: () => void }): JSX.Element {
  const lift = async (one: TopicPermission): Promise<void> => {
    const sure = await confirmed({
      title: "Lift this restriction?",
      text: `${one.user} may use every routing key of ${one.exchange} then.`,
      action: "Lift it",
    });
    const path = url(["topic-permissions", one.vhost, one.user, one.exchange]);
    if (sure && (await attempt(() => del(path), "Lifted."))) props.onChange();
  };
  if (props.rows.length === 0) {
    return (
      <div class="pad">
        <Empty title="Not restricted">On topic exchanges, keys can be restricted below.</Empty>
      </div>
    );
  }
  return (
    <Rows
      label="Restricted routing keys"
      head={["Virtual host", "Exchange", "Write", "Read", ["", "num"]]}
      rows={props.rows}
      id={(one) => JSON.stringify([one.vhost, one.exchange])}
      cells={(one) => [
        one.vhost,
        one.exchange,
        <code>{one.write}</code>,
        <code>{one.read}</code>,
        <button type="button" class="small danger" onClick={() => void lift(one)}>
          Lift
        </button>,
      ]}
    />
  );
}

function TopicForm(props: { user: string; onDone: () => void }): JSX.Element {
  const [where, setWhere] = useState("/");
  const [exchange, setExchange] = useState("amq.topic");
  const [write, setWrite] = useState(".*");
  const [read, setRead] = useState(".*");
  const set = async (): Promise<void> => {
    const path = url(["topic-permissions", where, props.user]);
    if (await attempt(() => put(path, { exchange, write, read }), "Restricted.")) props.onDone();
  };
  return (
    <Form action="Restrict" onSend={set}>
      <VhostField value={where} onValue={setWhere} />
      <Field label="Topic exchange" value={exchange} onValue={setExchange} required />
      <Field label="Write" value={write} onValue={setWrite} />
      <Field label="Read" value={read} onValue={setRead} />
    </Form>
  );
}
