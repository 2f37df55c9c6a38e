/** Permissions of users in virtual hosts. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { del, put } from "../api";
import { usePoll } from "../poll";
import type { Permission, User } from "../types";
import { Empty, Rows } from "../ui/basics";
import { confirmAction } from "../ui/dialog";
import { Field, Form } from "../ui/form";
import { attempt } from "../ui/notices";
import { VhostField } from "../ui/vhost-field";
import { link, url } from "../urls";

async function revoke(one: Permission): Promise<boolean> {
  const sure = await confirmAction({
    title: "Revoke these permissions?",
    text: `${one.user} can no longer access ${one.vhost}; its consumers are cancelled.`,
    action: "Revoke permissions",
  });
  return (
    sure && attempt(() => del(url(["permissions", one.vhost, one.user])), "Permissions revoked.")
  );
}

export function PermissionRows(props: {
  rows: Permission[];
  side: "user" | "vhost";
  onChange: () => void;
}): JSX.Element {
  if (props.rows.length === 0) {
    return (
      <div class="pad">
        <Empty
          title={props.side === "user" ? "No users have access" : "No access to any virtual host"}
        >
          Grant permissions below.
        </Empty>
      </div>
    );
  }
  return (
    <Rows
      label="Permissions"
      head={[props.side === "user" ? "User" : "Vhost", "Configure", "Write", "Read", ["", "num"]]}
      rows={props.rows}
      id={(one) => JSON.stringify([one.vhost, one.user])}
      cells={(one) => [
        <a href={link([`${props.side}s`, one[props.side]])}>{one[props.side]}</a>,
        <code>{one.configure || "none"}</code>,
        <code>{one.write || "none"}</code>,
        <code>{one.read || "none"}</code>,
        <button
          type="button"
          class="small danger"
          onClick={() => void revoke(one).then((done) => done && props.onChange())}
        >
          Revoke
        </button>,
      ]}
    />
  );
}

/** The user or the virtual host is fixed by the page. */
export function PermissionForm(props: {
  vhost?: string;
  user?: string;
  onDone: () => void;
}): JSX.Element {
  const [where, setWhere] = useState("/");
  const [who, setWho] = useState("");
  const [configure, setConfigure] = useState(".*");
  const [write, setWrite] = useState(".*");
  const [read, setRead] = useState(".*");
  const users = usePoll<User[]>(
    props.user === undefined ? url(["users"], { columns: "name" }) : null,
    0,
  );
  const set = async (): Promise<void> => {
    const path = url(["permissions", props.vhost ?? where, props.user ?? who]);
    if (await attempt(() => put(path, { configure, write, read }), "Permissions set."))
      props.onDone();
  };
  return (
    <Form action="Set permissions" onSend={set}>
      {props.vhost === undefined && <VhostField value={where} onValue={setWhere} />}
      {props.user === undefined && (
        <Field
          label="User"
          value={who}
          onValue={setWho}
          suggestions={(users.data ?? []).map((one) => one.name)}
          required
        />
      )}
      <Field
        label="Configure"
        value={configure}
        onValue={setConfigure}
        hint="regular expression for names; empty: none"
      />
      <Field label="Write" value={write} onValue={setWrite} />
      <Field label="Read" value={read} onValue={setRead} />
    </Form>
  );
}
