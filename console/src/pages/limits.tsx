/** Limits of virtual hosts and users. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { del, put } from "../api";
import { whole } from "../format";
import { usePoll } from "../poll";
import { may } from "../state";
import { Card, Empty, Loaded, PageHead, Rows } from "../ui/basics";
import { confirmAction } from "../ui/dialog";
import { Field, Form, Select } from "../ui/form";
import { attempt } from "../ui/notices";
import { link, url } from "../urls";

type Kind = "vhost" | "user";

interface Limits {
  vhost?: string;
  user?: string;
  value: Record<string, number>;
}

const NAMES: Record<Kind, string[]> = {
  vhost: ["max-connections", "max-queues"],
  user: ["max-connections", "max-channels"],
};

interface Row {
  of: string;
  limit: string;
  value: number;
}

function rowsOf(kind: Kind, limits: Limits[]): Row[] {
  return limits.flatMap((one) =>
    Object.entries(one.value).map(([limit, value]) => ({ of: one[kind] ?? "", limit, value })),
  );
}

async function remove(kind: Kind, row: Row): Promise<boolean> {
  const sure = await confirmAction({
    title: "Delete this limit?",
    text: `${row.limit} of ${kind} ${row.of} (currently ${whole(row.value)}).`,
    action: "Delete limit",
  });
  return sure && attempt(() => del(url([`${kind}-limits`, row.of, row.limit])), "Limit deleted.");
}

export function LimitsPage(): JSX.Element {
  return (
    <>
      <PageHead title="Limits" />
      <LimitRows kind="vhost" />
      <LimitRows kind="user" />
    </>
  );
}

/** All limits, or those of one virtual host or user. */
export function LimitRows(props: { kind: Kind; name?: string }): JSX.Element {
  const { kind, name } = props;
  const path = name === undefined ? [`${kind}-limits`] : [`${kind}-limits`, name];
  const polled = usePoll<Limits[]>(url(path), 0);
  const title = kind === "vhost" ? "Limits of virtual hosts" : "Limits of users";
  return (
    <Card title={name === undefined ? title : "Limits"} flush>
      <Loaded polled={polled}>
        {(data) => {
          const rows = rowsOf(kind, data);
          return rows.length === 0 ? (
            <div class="pad">
              <Empty title="No limits">
                {kind === "vhost" ? "Connections and queues" : "Connections and channels"} are
                limited only by system resources.
              </Empty>
            </div>
          ) : (
            <Rows
              label={title}
              head={[
                kind === "vhost" ? "Virtual host" : "User",
                "Limit",
                ["Maximum", "num"],
                ["", "num"],
              ]}
              rows={rows}
              id={(row) => JSON.stringify([row.of, row.limit])}
              cells={(row) => [
                <a href={link([`${kind}s`, row.of])}>{row.of}</a>,
                row.limit,
                whole(row.value),
                may("administrator") && (
                  <button
                    type="button"
                    class="small danger"
                    onClick={() => void remove(kind, row).then((done) => done && polled.refresh())}
                  >
                    Delete
                  </button>
                ),
              ]}
            />
          );
        }}
      </Loaded>
      {may("administrator") && (
        <div class="pad">
          <LimitForm kind={kind} name={name} onDone={polled.refresh} />
        </div>
      )}
    </Card>
  );
}

function LimitForm(props: { kind: Kind; name?: string; onDone: () => void }): JSX.Element {
  const [of, setOf] = useState("");
  const [limit, setLimit] = useState("max-connections");
  const [value, setValue] = useState("");
  const names = usePoll<{ name: string }[]>(
    props.name === undefined ? url([`${props.kind}s`], { columns: "name" }) : null,
    0,
  );
  const set = async (): Promise<void> => {
    const path = url([`${props.kind}-limits`, props.name ?? of, limit]);
    if (await attempt(() => put(path, { value: Number(value) }), "Limit set.")) {
      setValue("");
      props.onDone();
    }
  };
  return (
    <Form action="Set limit" onSend={set}>
      {props.name === undefined && (
        <Field
          label={props.kind === "vhost" ? "Virtual host" : "User"}
          value={of}
          onValue={setOf}
          suggestions={(names.data ?? []).map((one) => one.name)}
          required
        />
      )}
      <Select label="Limit" value={limit} onValue={setLimit} options={NAMES[props.kind]} />
      <Field label="Maximum" type="number" value={value} onValue={setValue} required />
    </Form>
  );
}
