/** Table of bindings, and the form that adds one. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { del, post } from "../api";
import { exchangeName } from "../format";
import type { Binding } from "../types";
import { exchangePart, url } from "../urls";
import { Empty, Rows } from "./basics";
import { confirmAction } from "./dialog";
import { Field, Form, KeyValueFields, type KeyValues, objectOf, Select } from "./form";
import { ExchangeLink, QueueLink } from "./links";
import { attempt } from "./notices";
import { useNames } from "./vhost-field";

function kindPart(one: Binding): string {
  return one.destination_type === "queue" ? "q" : "e";
}

async function unbind(one: Binding): Promise<boolean> {
  const sure = await confirmAction({
    title: "Delete this binding?",
    text:
      `From ${exchangeName(one.source)} to ${one.destination_type} ${one.destination}` +
      `, key “${one.routing_key}”.\n\nMessages already routed are kept. New messages no longer take this route.`,
    action: "Delete binding",
  });
  const path = url([
    "bindings",
    one.vhost,
    "e",
    exchangePart(one.source),
    kindPart(one),
    one.destination,
    one.properties_key,
  ]);
  return sure && attempt(() => del(path), "Binding deleted.");
}

export function BindingRows(props: {
  bindings: Binding[];
  side: "source" | "destination";
  onChange: () => void;
  empty: string;
}): JSX.Element {
  if (props.bindings.length === 0) {
    return (
      <div class="pad">
        <Empty title={props.empty} />
      </div>
    );
  }
  return (
    <Rows
      label={props.side === "source" ? "Incoming bindings" : "Outgoing bindings"}
      head={[
        props.side === "source" ? "From" : "To",
        "Routing key",
        ["Arguments", "low"],
        ["", "num"],
      ]}
      rows={props.bindings}
      id={(one) =>
        JSON.stringify([one.source, one.destination_type, one.destination, one.properties_key])
      }
      cells={(one) => [
        props.side === "source" ? (
          <ExchangeLink vhost={one.vhost} name={one.source} bare />
        ) : one.destination_type === "queue" ? (
          <QueueLink vhost={one.vhost} name={one.destination} bare />
        ) : (
          <ExchangeLink vhost={one.vhost} name={one.destination} bare />
        ),
        <code>{one.routing_key}</code>,
        Object.keys(one.arguments).length > 0 ? <code>{JSON.stringify(one.arguments)}</code> : "",
        one.source === "" ? (
          <span class="muted">implicit</span>
        ) : (
          <button
            type="button"
            class="small danger"
            onClick={() => void unbind(one).then((done) => done && props.onChange())}
          >
            Unbind
          </button>
        ),
      ]}
    />
  );
}

/** One end of the binding is fixed by the page. */
export function BindForm(props: {
  vhost: string;
  from?: string;
  toQueue?: string;
  onDone: () => void;
}): JSX.Element {
  const [kind, setKind] = useState("q");
  const [other, setOther] = useState("");
  const [key, setKey] = useState("");
  const [pairs, setPairs] = useState<KeyValues>([]);
  const wanted = props.from === undefined || kind === "e" ? "exchanges" : "queues";
  const names = useNames(wanted, props.vhost);
  const bind = async (): Promise<void> => {
    const source = exchangePart(props.from ?? other);
    const [type, target] = props.toQueue === undefined ? [kind, other] : ["q", props.toQueue];
    const path = url(["bindings", props.vhost, "e", source, type, target]);
    const body = { routing_key: key, arguments: objectOf(pairs) };
    if (await attempt(() => post(path, body), "Binding created.")) {
      setOther("");
      setKey("");
      setPairs([]);
      props.onDone();
    }
  };
  return (
    <Form action="Bind" onSend={bind}>
      {props.from !== undefined && (
        <Select
          label="To"
          value={kind}
          onValue={setKind}
          options={[
            ["q", "queue"],
            ["e", "exchange"],
          ]}
        />
      )}
      <Field
        label={wanted === "queues" ? "Queue" : "Exchange"}
        value={other}
        onValue={setOther}
        suggestions={names}
        required
      />
      <Field label="Routing key" value={key} onValue={setKey} />
      <KeyValueFields
        label="Arguments"
        pairs={pairs}
        onPairs={setPairs}
        suggestions={["x-match"]}
      />
    </Form>
  );
}
