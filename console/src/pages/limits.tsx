/** How much vhosts and users may have. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { del, put } from "../api";
import { whole } from "../format";
import { usePoll } from "../poll";
import { link, url } from "../route";
import { may } from "../state";
import { Card, Empty, PageHead, Ready, Rows } from "../ui/basics";
import { confirmed } from "../ui/dialog";
import { Choice, Field, Form } from "../ui/form";
import { attempt } from "../ui/notices";

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

async function lift(kind: Kind, row: Row): Promise<boolean> {
  const sure = await confirmed({
    title: "Lift this limit?",
    text: `${row.limit} of ${kind} ${row.of}, ${whole(row.value)} now.`,
    action: "Lift it",
  });
  return sure && attempt(() => del(url([`${kind}-limits`, row.of, row.limit])), "Lifted.");
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

/** Of all, or of the one that is named. */
export function LimitRows(props: { kind: Kind; name?: string }): JSX.Element {
  const { kind, name } = props;
  const path = name === undefined ? [`${kind}-limits`] : [`${kind}-limits`, name];
  const polled = usePoll<Limits[]>(url(path), 0);
  const title = kind === "vhost" ? "Limits of virtual hosts" : "Limits of users";
  return (
    <Card title={name === undefined ? title : "Limits"} flush>
      <Ready polled={polled}>
        {(data) => {
          const rows = rowsOf(kind, data);
          return rows.length === 0 ? (
            <div class="pad">
              <Empty title="No limits">
                {kind === "vhost" ? "Connections and queues" : "Connections and channels"} are only
                limited by the machine.
              </Empty>
            </div>
          ) : (
            <Rows
              label={title}
              head={[
                kind === "vhost" ? "Virtual host" : "User",
                "Limit",
                ["At most", "num"],
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
                    onClick={() => void lift(kind, row).then((done) => done && polled.refresh())}
                  >
                    Lift
                  </button>
                ),
              ]}
            />
          );
        }}
      </Ready>
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
    if (await attempt(() => put(path, { value: Number(value) }), "The limit is set.")) {
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
      <Choice label="Limit" value={limit} onValue={setLimit} options={NAMES[props.kind]} />
      <Field label="At most" type="number" value={value} onValue={setValue} required />
    </Form>
  );
}
