/** List of users, and the form that creates one. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { put } from "../api";
import { navigate, updateQuery, useAddress } from "../navigation";
import type { User } from "../types";
import { Badge, Empty, PageHead } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { Checkbox, Field, Form } from "../ui/form";
import { List } from "../ui/list";
import { attempt } from "../ui/notices";
import { link, url } from "../urls";

export const TAGS: [string, string][] = [
  ["administrator", "full access"],
  ["monitoring", "views everything"],
  ["policymaker", "manages policies where it has permissions"],
  ["management", "logs in here and views its own objects"],
];

export function UsersPage(): JSX.Element {
  const { query } = useAddress();
  return (
    <>
      <PageHead title="Users">
        <button type="button" class="primary" onClick={() => updateQuery({ new: "1" })}>
          New user
        </button>
      </PageHead>
      <List<User>
        label="Users"
        parts={["users"]}
        global
        fields="name,tags,limits"
        id={(one) => one.name}
        empty={<Empty title="No users" />}
        columns={[
          {
            label: "User",
            sort: "name",
            cell: (one) => <a href={link(["users", one.name])}>{one.name}</a>,
          },
          {
            label: "Tags",
            cell: (one) => (
              <span class="badges">
                {one.tags.map((tag) => (
                  <Badge key={tag} tone={tag === "administrator" ? "warn" : "info"}>
                    {tag}
                  </Badge>
                ))}
                {one.tags.length === 0 && <span class="muted">none: cannot log in here</span>}
              </span>
            ),
          },
          {
            label: "Limits",
            low: 1,
            cell: (one) =>
              Object.entries(one.limits)
                .map(([name, value]) => `${name} ${value}`)
                .join(", ") || <span class="muted">none</span>,
          },
        ]}
      />
      {query.new && <NewUser />}
    </>
  );
}

export function TagChecks(props: {
  tags: string[];
  onTags: (tags: string[]) => void;
}): JSX.Element {
  const toggle = (tag: string, on: boolean): void =>
    props.onTags(on ? [...props.tags, tag] : props.tags.filter((one) => one !== tag));
  return (
    <fieldset class="checks" aria-label="Tags">
      {TAGS.map(([tag, text]) => (
        <Checkbox
          key={tag}
          label={
            <>
              {tag} <span class="muted">{text}</span>
            </>
          }
          value={props.tags.includes(tag)}
          onValue={(on) => toggle(tag, on)}
        />
      ))}
    </fieldset>
  );
}

function NewUser(): JSX.Element {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [tags, setTags] = useState<string[]>([]);
  const create = async (): Promise<void> => {
    const body = { password, tags: tags.join(",") };
    const created = await attempt(
      () => put(url(["users", name]), body),
      `User ${name} created. Grant it permissions.`,
    );
    if (created) navigate(["users", name]);
  };
  return (
    <Dialog title="New user" onClose={() => updateQuery({ new: undefined })} wide>
      <Form action="Create user" onSend={create}>
        <Field label="Name" value={name} onValue={setName} required autofocus />
        <Field
          label="Password"
          type="password"
          autocomplete="new-password"
          value={password}
          onValue={setPassword}
          required
        />
        <TagChecks tags={tags} onTags={setTags} />
      </Form>
    </Dialog>
  );
}
