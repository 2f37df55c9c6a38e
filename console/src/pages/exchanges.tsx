/** List of exchanges, and the diagram of all bindings. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { put } from "../api";
import { rate } from "../format";
import { navigate, updateQuery, useAddress } from "../navigation";
import { usePoll } from "../poll";
import { useShared, vhost } from "../state";
import { type Binding, type Exchange, rateOf } from "../types";
import { Badge, Collapsible, Empty, Loaded, PageHead } from "../ui/basics";
import { BindingDiagram } from "../ui/diagram";
import { Dialog } from "../ui/dialog";
import {
  Checkbox,
  Field,
  Form,
  KeyValueFields,
  type KeyValues,
  objectOf,
  Select,
} from "../ui/form";
import { ExchangeLink } from "../ui/links";
import { List } from "../ui/list";
import { attempt } from "../ui/notices";
import { useVhosts, VhostField } from "../ui/vhost-field";
import { url } from "../urls";

const FIELDS =
  "name,vhost,type,durable,auto_delete,internal,policy,arguments,message_stats.publish_in_details," +
  "message_stats.publish_out_details";

export function ExchangesPage(): JSX.Element {
  const { query } = useAddress();
  return (
    <>
      <PageHead title="Exchanges">
        <button type="button" class="primary" onClick={() => updateQuery({ new: "1" })}>
          New exchange
        </button>
      </PageHead>
      <List<Exchange>
        label="Exchanges"
        parts={["exchanges"]}
        fields={FIELDS}
        id={(one) => JSON.stringify([one.vhost, one.name])}
        empty={<Empty title="No exchanges" />}
        columns={[
          {
            label: "Exchange",
            sort: "name",
            cell: (one) => <ExchangeLink vhost={one.vhost} name={one.name} />,
          },
          { label: "Type", sort: "type", cell: (one) => <Badge tone="info">{one.type}</Badge> },
          {
            label: "Features",
            low: 1,
            cell: (one) => (
              <span class="badges">
                {!one.durable && <Badge>transient</Badge>}
                {one.auto_delete && <Badge>auto-delete</Badge>}
                {one.internal && <Badge>internal</Badge>}
                {"alternate-exchange" in one.arguments && (
                  <Badge title={String(one.arguments["alternate-exchange"])}>alternate</Badge>
                )}
                {one.policy && <Badge tone="info">policy {one.policy}</Badge>}
              </span>
            ),
          },
          {
            label: "In",
            sort: "message_stats.publish_in_details.rate",
            num: true,
            cell: (one) => rate(rateOf(one.message_stats, "publish_in")),
          },
          {
            label: "Out",
            sort: "message_stats.publish_out_details.rate",
            num: true,
            cell: (one) => rate(rateOf(one.message_stats, "publish_out")),
          },
        ]}
      />
      <Collapsible title="Diagram of all bindings">
        <AllBindings />
      </Collapsible>
      {query.new && <NewExchange />}
    </>
  );
}

/** Of the chosen vhost, or the first one. */
function AllBindings(): JSX.Element {
  const chosen = useShared(vhost);
  const names = useVhosts();
  const shown = chosen ?? names[0] ?? "/";
  const polled = usePoll<Binding[]>(url(["bindings", shown]), 15_000);
  return (
    <Loaded polled={polled}>
      {(all) => {
        const bindings = all.filter((one) => one.source !== "");
        return bindings.length === 0 ? (
          <Empty title="No bindings yet">
            Open an exchange and bind a queue to it. Without bindings, only the default exchange
            routes to queues, by name.
          </Empty>
        ) : (
          <>
            {names.length > 1 && <p class="muted">Virtual host {shown}</p>}
            <BindingDiagram vhost={shown} bindings={bindings} />
          </>
        );
      }}
    </Loaded>
  );
}

const ARGUMENTS = ["alternate-exchange", "x-delayed-type"];

function NewExchange(): JSX.Element {
  const [where, setWhere] = useState(vhost.value ?? "/");
  const [name, setName] = useState("");
  const [type, setType] = useState("direct");
  const [durable, setDurable] = useState(true);
  const [autoDelete, setAutoDelete] = useState(false);
  const [internal, setInternal] = useState(false);
  const [pairs, setPairs] = useState<KeyValues>([]);
  const close = (): void => updateQuery({ new: undefined });
  const create = async (): Promise<void> => {
    const body = { type, durable, auto_delete: autoDelete, internal, arguments: objectOf(pairs) };
    const created = await attempt(
      () => put(url(["exchanges", where, name]), body),
      `Exchange ${name} created.`,
    );
    if (created) navigate(["exchanges", where, name]);
  };
  return (
    <Dialog title="New exchange" onClose={close} wide>
      <Form action="Create exchange" onSend={create}>
        <VhostField value={where} onValue={setWhere} />
        <Field label="Name" value={name} onValue={setName} required autofocus />
        <Select
          label="Type"
          value={type}
          onValue={setType}
          options={[
            ["direct", "direct: exact routing key"],
            ["topic", "topic: routing key pattern"],
            ["fanout", "fanout: all bound queues"],
            ["headers", "headers: message headers"],
            ["x-delayed-message", "x-delayed-message: delayed delivery"],
          ]}
        />
        <div class="checks">
          <Checkbox label="Durable: survives a restart" value={durable} onValue={setDurable} />
          <Checkbox
            label="Auto-delete: deleted with its last binding"
            value={autoDelete}
            onValue={setAutoDelete}
          />
          <Checkbox
            label="Internal: accepts messages from exchanges only"
            value={internal}
            onValue={setInternal}
          />
        </div>
        <KeyValueFields
          label="Arguments"
          pairs={pairs}
          onPairs={setPairs}
          suggestions={ARGUMENTS}
        />
      </Form>
    </Dialog>
  );
}
