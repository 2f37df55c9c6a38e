/** Users. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { put } from "../api";
import { adjust, go, usePlace } from "../place";
import { link, url } from "../route";
import type { User } from "../types";
import { Badge, Empty, PageHead } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { Check, Field, Form } from "../ui/form";
import { List } from "../ui/list";
import { attempt } from "../ui/notices";

export const TAGS: [string, string][] = [
  ["administrator", "everything"],
  ["monitoring", "sees everything"],
  ["policymaker", "sets policies where it has permissions"],
  ["management", "logs in here, sees its own"],
];

export function UsersPage(): JSX.Element {
  const { query } = usePlace();
  return (
    <>
      <PageHead title="Users">
        <button type="button" class="primary" onClick={() => adjust({ new: "1" })}>
          New user
        </button>
      </PageHead>
      <List<User>
        label="Users"
        parts={["users"]}
        everywhere
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
                {one.tags.length === 0 && <span class="muted">none: no login here</span>}
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
        <Check
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
  const make = async (): Promise<void> => {
    const body = { password, tags: tags.join(",") };
    const made = await attempt(
      () => put(url(["users", name]), body),
      `User ${name} is there. Set its permissions.`,
    );
    if (made) go(["users", name]);
  };
  return (
    <Dialog title="New user" onClose={() => adjust({ new: undefined })} wide>
      <Form action="Make user" onSend={make}>
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
