/** One user: tags, password, permissions, limits. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { del, put } from "../api";
import { navigate } from "../navigation";
import { usePoll } from "../poll";
import { session } from "../state";
import type { Permission, TopicPermission, User } from "../types";
import { Badge, Card, Empty, Facts, Loaded, PageHead, Rows } from "../ui/basics";
import { confirmAction } from "../ui/dialog";
import { Field, Form } from "../ui/form";
import { attempt } from "../ui/notices";
import { VhostField } from "../ui/vhost-field";
import { url } from "../urls";
import { LimitRows } from "./limits";
import { PermissionForm, PermissionRows } from "./permissions";
import { TagChecks } from "./users";

export function UserPage(props: { name: string }): JSX.Element {
  const polled = usePoll<User>(url(["users", props.name]), 0);
  const permissions = usePoll<Permission[]>(url(["users", props.name, "permissions"]), 0);
  const topics = usePoll<TopicPermission[]>(url(["users", props.name, "topic-permissions"]), 0);
  const remove = async (): Promise<void> => {
    const sure = await confirmAction({
      title: "Delete this user?",
      text: "Its connections are closed. Queues and messages are kept.",
      action: "Delete user",
      typed: props.name,
    });
    if (sure && (await attempt(() => del(url(["users", props.name])), "User deleted.")))
      navigate(["users"]);
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
      <Loaded polled={polled}>
        {(user) => <Account key={user.tags.join()} user={user} onDone={polled.refresh} />}
      </Loaded>
      <Card title="Permissions" flush>
        <Loaded polled={permissions}>
          {(rows) => <PermissionRows rows={rows} side="vhost" onChange={permissions.refresh} />}
        </Loaded>
        <div class="pad">
          <PermissionForm user={props.name} onDone={permissions.refresh} />
        </div>
      </Card>
      <Card title="Topic permissions" flush>
        <Loaded polled={topics}>
          {(rows) => <TopicRows rows={rows} onChange={topics.refresh} />}
        </Loaded>
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
    if (await attempt(() => put(url(["users", user.name]), body), "User updated.")) {
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
            ["Password hash", user.hashing_algorithm.replace(/^.*_password_hashing_/, "")],
          ]}
        />
        <Form action="Update user" onSend={change}>
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
  const remove = async (one: TopicPermission): Promise<void> => {
    const sure = await confirmAction({
      title: "Delete this topic permission?",
      text: `${one.user} can then use every routing key of ${one.exchange}.`,
      action: "Delete topic permission",
    });
    const path = url(["topic-permissions", one.vhost, one.user, one.exchange]);
    if (sure && (await attempt(() => del(path), "Topic permission deleted."))) props.onChange();
  };
  if (props.rows.length === 0) {
    return (
      <div class="pad">
        <Empty title="No topic permissions">
          All routing keys are allowed. Restrict those of a topic exchange below.
        </Empty>
      </div>
    );
  }
  return (
    <Rows
      label="Topic permissions"
      head={["Vhost", "Exchange", "Write", "Read", ["", "num"]]}
      rows={props.rows}
      id={(one) => JSON.stringify([one.vhost, one.exchange])}
      cells={(one) => [
        one.vhost,
        one.exchange,
        <code>{one.write}</code>,
        <code>{one.read}</code>,
        <button type="button" class="small danger" onClick={() => void remove(one)}>
          Delete
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
    if (await attempt(() => put(path, { exchange, write, read }), "Topic permission set."))
      props.onDone();
  };
  return (
    <Form action="Set topic permission" onSend={set}>
      <VhostField value={where} onValue={setWhere} />
      <Field label="Topic exchange" value={exchange} onValue={setExchange} required />
      <Field label="Write" value={write} onValue={setWrite} />
      <Field label="Read" value={read} onValue={setRead} />
    </Form>
  );
}
