/** Bindings in a table, with the means to add and to remove them. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { del, post } from "../api";
import { exchangeName } from "../format";
import { exchangePart, url } from "../route";
import type { Binding } from "../types";
import { Empty, Rows } from "./basics";
import { confirmed } from "./dialog";
import { Choice, Field, Form, objectOf, PairRows, type Pairs } from "./form";
import { ExchangeLink, QueueLink } from "./links";
import { attempt } from "./notices";
import { useNames } from "./vhost-field";

function kindPart(one: Binding): string {
  return one.destination_type === "queue" ? "q" : "e";
}

async function unbind(one: Binding): Promise<boolean> {
  const sure = await confirmed({
    title: "Remove this binding?",
    text:
      `From ${exchangeName(one.source)} to ${one.destination_type} ${one.destination}` +
      `, key “${one.routing_key}”.\n\nMessages stay where they are; new ones do not take this way any more.`,
    action: "Remove it",
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
  return sure && attempt(() => del(path), "The binding is removed.");
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
      label={props.side === "source" ? "Bindings that lead here" : "Bindings that begin here"}
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
          <span class="muted">always</span>
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

/** From an exchange to a queue or an exchange; one end is given by the page. */
export function BindForm(props: {
  vhost: string;
  from?: string;
  toQueue?: string;
  onDone: () => void;
}): JSX.Element {
  const [kind, setKind] = useState("q");
  const [other, setOther] = useState("");
  const [key, setKey] = useState("");
  const [pairs, setPairs] = useState<Pairs>([]);
  const wanted = props.from === undefined || kind === "e" ? "exchanges" : "queues";
  const names = useNames(wanted, props.vhost);
  const bind = async (): Promise<void> => {
    const source = exchangePart(props.from ?? other);
    const [type, target] = props.toQueue === undefined ? [kind, other] : ["q", props.toQueue];
    const path = url(["bindings", props.vhost, "e", source, type, target]);
    const body = { routing_key: key, arguments: objectOf(pairs) };
    if (await attempt(() => post(path, body), "Bound.")) {
      setOther("");
      setKey("");
      setPairs([]);
      props.onDone();
    }
  };
  return (
    <Form action="Bind" onSend={bind}>
      {props.from !== undefined && (
        <Choice
          label="To"
          value={kind}
          onValue={setKind}
          options={[
            ["q", "a queue"],
            ["e", "an exchange"],
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
      <PairRows label="Arguments" pairs={pairs} onPairs={setPairs} suggestions={["x-match"]} />
    </Form>
  );
}
