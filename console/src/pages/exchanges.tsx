/** Exchanges: the list, and a picture of all bindings. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { put } from "../api";
import { rate } from "../format";
import { adjust, go, usePlace } from "../place";
import { usePoll } from "../poll";
import { url } from "../route";
import { useShared, vhost } from "../state";
import { type Binding, type Exchange, rateOf } from "../types";
import { Badge, Empty, Fold, PageHead, Ready } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { Check, Choice, Field, Form, objectOf, PairRows, type Pairs } from "../ui/form";
import { ExchangeLink } from "../ui/links";
import { List } from "../ui/list";
import { attempt } from "../ui/notices";
import { BindingPicture } from "../ui/picture";
import { useVhosts, VhostField } from "../ui/vhost-field";

const FIELDS =
  "name,vhost,type,durable,auto_delete,internal,policy,arguments,message_stats.publish_in_details," +
  "message_stats.publish_out_details";

export function ExchangesPage(): JSX.Element {
  const { query } = usePlace();
  return (
    <>
      <PageHead title="Exchanges">
        <button type="button" class="primary" onClick={() => adjust({ new: "1" })}>
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
      <Fold title="Picture of all bindings">
        <AllBindings />
      </Fold>
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
    <Ready polled={polled}>
      {(all) => {
        const bindings = all.filter((one) => one.source !== "");
        return bindings.length === 0 ? (
          <Empty title="No bindings yet">
            Open an exchange and bind a queue to it. Without a binding only the default exchange
            reaches a queue, by its name.
          </Empty>
        ) : (
          <>
            {names.length > 1 && <p class="muted">Virtual host {shown}</p>}
            <BindingPicture vhost={shown} bindings={bindings} />
          </>
        );
      }}
    </Ready>
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
  const [pairs, setPairs] = useState<Pairs>([]);
  const close = (): void => adjust({ new: undefined });
  const make = async (): Promise<void> => {
    const body = { type, durable, auto_delete: autoDelete, internal, arguments: objectOf(pairs) };
    const made = await attempt(
      () => put(url(["exchanges", where, name]), body),
      `Exchange ${name} is there.`,
    );
    if (made) go(["exchanges", where, name]);
  };
  return (
    <Dialog title="New exchange" onClose={close} wide>
      <Form action="Make exchange" onSend={make}>
        <VhostField value={where} onValue={setWhere} />
        <Field label="Name" value={name} onValue={setName} required autofocus />
        <Choice
          label="Type"
          value={type}
          onValue={setType}
          options={[
            ["direct", "direct: the key is equal"],
            ["topic", "topic: the key matches a pattern"],
            ["fanout", "fanout: to all"],
            ["headers", "headers: headers match"],
            ["x-delayed-message", "x-delayed-message: later"],
          ]}
        />
        <div class="checks">
          <Check label="Durable: survives a restart" value={durable} onValue={setDurable} />
          <Check
            label="Auto-delete: goes with its last binding"
            value={autoDelete}
            onValue={setAutoDelete}
          />
          <Check
            label="Internal: only other exchanges publish"
            value={internal}
            onValue={setInternal}
          />
        </div>
        <PairRows label="Arguments" pairs={pairs} onPairs={setPairs} suggestions={ARGUMENTS} />
      </Form>
    </Dialog>
  );
}
