/** Policies: settings of queues and exchanges by name pattern. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { del, put } from "../api";
import { updateQuery, useAddress } from "../navigation";
import { usePoll } from "../poll";
import { may, useShared, vhost } from "../state";
import type { Policy } from "../types";
import { Badge, Card, Empty, Loaded, PageHead, Rows, Values } from "../ui/basics";
import { confirmAction, Dialog } from "../ui/dialog";
import { Field, Form, KeyValueFields, type KeyValues, objectOf, pairsOf, Select } from "../ui/form";
import { attempt } from "../ui/notices";
import { VhostField } from "../ui/vhost-field";
import { url } from "../urls";

const KEYS = [
  "message-ttl",
  "expires",
  "max-length",
  "max-length-bytes",
  "overflow",
  "dead-letter-exchange",
  "dead-letter-routing-key",
  "alternate-exchange",
  "delivery-limit",
];

async function remove(policy: Policy): Promise<boolean> {
  const sure = await confirmAction({
    title: "Delete this policy?",
    text: "Its settings no longer apply to any queue or exchange.",
    action: "Delete policy",
    typed: policy.name,
  });
  return (
    sure && attempt(() => del(url(["policies", policy.vhost, policy.name])), "Policy deleted.")
  );
}

export function PoliciesPage(): JSX.Element {
  const chosen = useShared(vhost);
  const { query } = useAddress();
  const polled = usePoll<Policy[]>(
    url(chosen === null ? ["policies"] : ["policies", chosen]),
    15_000,
  );
  const [edited, setEdited] = useState<Policy | null>(null);
  const shown = edited !== null || query.new === "1";
  const close = (): void => {
    setEdited(null);
    updateQuery({ new: undefined });
  };
  return (
    <>
      <PageHead title="Policies">
        {may("policymaker") && (
          <button type="button" class="primary" onClick={() => updateQuery({ new: "1" })}>
            New policy
          </button>
        )}
      </PageHead>
      <Card flush>
        <Loaded polled={polled}>
          {(rows) =>
            rows.length === 0 ? (
              <div class="pad">
                <Empty title="No policies">
                  A policy applies a TTL, a limit or a dead-letter exchange to all queues whose
                  names match. It can be changed while they are in use.
                </Empty>
              </div>
            ) : (
              <PolicyRows rows={rows} onEdit={setEdited} onChange={polled.refresh} />
            )
          }
        </Loaded>
      </Card>
      {shown && (
        <PolicyDialog
          policy={edited}
          onClose={close}
          onDone={() => {
            close();
            polled.refresh();
          }}
        />
      )}
    </>
  );
}

function PolicyRows(props: {
  rows: Policy[];
  onEdit: (policy: Policy) => void;
  onChange: () => void;
}): JSX.Element {
  return (
    <Rows
      label="Policies"
      head={[
        "Policy",
        "Pattern",
        ["Applies to", "low"],
        ["Definition", "low"],
        ["Priority", "num low"],
        ["", "num"],
      ]}
      rows={props.rows}
      id={(one) => JSON.stringify([one.vhost, one.name])}
      cells={(one) => [
        <>
          <b>{one.name}</b>
          <span class="sub">{one.vhost}</span>
        </>,
        <code>{one.pattern}</code>,
        <Badge>{one["apply-to"]}</Badge>,
        <Values of={one.definition} />,
        one.priority,
        may("policymaker") && (
          <>
            <button type="button" class="small" onClick={() => props.onEdit(one)}>
              Edit
            </button>{" "}
            <button
              type="button"
              class="small danger"
              onClick={() => void remove(one).then((done) => done && props.onChange())}
            >
              Delete
            </button>
          </>
        ),
      ]}
    />
  );
}

function PolicyDialog(props: {
  policy: Policy | null;
  onClose: () => void;
  onDone: () => void;
}): JSX.Element {
  const old = props.policy;
  const [where, setWhere] = useState(old?.vhost ?? vhost.value ?? "/");
  const [name, setName] = useState(old?.name ?? "");
  const [pattern, setPattern] = useState(old?.pattern ?? "");
  const [applyTo, setApplyTo] = useState(old?.["apply-to"] ?? "queues");
  const [priority, setPriority] = useState(String(old?.priority ?? 0));
  const [pairs, setPairs] = useState<KeyValues>(pairsOf(old?.definition ?? {}));
  const set = async (): Promise<void> => {
    const body = {
      pattern,
      "apply-to": applyTo,
      priority: Number(priority),
      definition: objectOf(pairs),
    };
    if (await attempt(() => put(url(["policies", where, name]), body), "Policy saved."))
      props.onDone();
  };
  return (
    <Dialog title={old ? `Policy ${old.name}` : "New policy"} onClose={props.onClose} wide>
      <Form action="Save policy" onSend={set}>
        {!old && <VhostField value={where} onValue={setWhere} />}
        {!old && <Field label="Name" value={name} onValue={setName} required autofocus />}
        <Field
          label="Pattern"
          value={pattern}
          onValue={setPattern}
          hint="regular expression for names"
          required
        />
        <Select
          label="Applies to"
          value={applyTo}
          onValue={setApplyTo}
          options={["queues", "exchanges", "all"]}
        />
        <Field
          label="Priority"
          type="number"
          value={priority}
          onValue={setPriority}
          hint="the matching policy with the highest priority applies"
        />
        <KeyValueFields label="Definition" pairs={pairs} onPairs={setPairs} suggestions={KEYS} />
      </Form>
    </Dialog>
  );
}
