/** Permissions: what a user may declare, write to and read from in a vhost. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { del, put } from "../api";
import { usePoll } from "../poll";
import { link, url } from "../route";
import type { Permission, User } from "../types";
import { Empty, Rows } from "../ui/basics";
import { confirmed } from "../ui/dialog";
import { Field, Form } from "../ui/form";
import { attempt } from "../ui/notices";
import { VhostField } from "../ui/vhost-field";

async function clear(one: Permission): Promise<boolean> {
  const sure = await confirmed({
    title: "Take these permissions away?",
    text: `${one.user} may not enter ${one.vhost} any more; running consumers of it end.`,
    action: "Take them away",
  });
  return sure && attempt(() => del(url(["permissions", one.vhost, one.user])), "They are gone.");
}

export function PermissionRows(props: {
  rows: Permission[];
  side: "user" | "vhost";
  onChange: () => void;
}): JSX.Element {
  if (props.rows.length === 0) {
    return (
      <div class="pad">
        <Empty title={props.side === "user" ? "Nobody may enter" : "May enter no virtual host"}>
          Set permissions below.
        </Empty>
      </div>
    );
  }
  return (
    <Rows
      label="Permissions"
      head={[
        props.side === "user" ? "User" : "Virtual host",
        "Configure",
        "Write",
        "Read",
        ["", "num"],
      ]}
      rows={props.rows}
      id={(one) => JSON.stringify([one.vhost, one.user])}
      cells={(one) => [
        <a href={link([`${props.side}s`, one[props.side]])}>{one[props.side]}</a>,
        <code>{one.configure || "nothing"}</code>,
        <code>{one.write || "nothing"}</code>,
        <code>{one.read || "nothing"}</code>,
        <button
          type="button"
          class="small danger"
          onClick={() => void clear(one).then((done) => done && props.onChange())}
        >
          Clear
        </button>,
      ]}
    />
  );
}

/** One of the two is given by the page. */
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
    if (await attempt(() => put(path, { configure, write, read }), "Permissions are set."))
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
        hint="a regular expression for names; empty: nothing"
      />
      <Field label="Write" value={write} onValue={setWrite} />
      <Field label="Read" value={read} onValue={setRead} />
    </Form>
  );
}
