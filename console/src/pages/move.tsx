/** Moving messages to another queue or exchange. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { post } from "../api";
import { plural, whole } from "../format";
import { exchangePart, url } from "../route";
import { Card } from "../ui/basics";
import { confirmed } from "../ui/dialog";
import { Choice, Field, Form } from "../ui/form";
import { attempt, notify } from "../ui/notices";
import { useNames } from "../ui/vhost-field";

export interface Moved {
  moved: number;
  left: number;
  stopped: string | null;
}

export function sayMoved(result: Moved): void {
  const text = `${plural(result.moved, "message")} moved, ${whole(result.left)} left.`;
  notify(result.stopped ? `${text} ${result.stopped}` : text, result.stopped !== null);
}

export function MoveForm(props: {
  vhost: string;
  name: string;
  ready: number;
  onDone: () => void;
}): JSX.Element {
  const [kind, setKind] = useState("queue");
  const [target, setTarget] = useState("");
  const [key, setKey] = useState("");
  const [count, setCount] = useState("");
  const names = useNames(kind === "queue" ? "queues" : "exchanges", props.vhost);
  const send = async (): Promise<void> => {
    const many = count === "" ? props.ready : Number(count);
    const sure = await confirmed({
      title: "Move messages?",
      text: `${plural(many, "message")} from the head of ${props.name} to ${kind} ${target}. None is lost on the way: each leaves and arrives in one step.`,
      action: "Move",
    });
    if (!sure) return;
    const destination =
      kind === "queue"
        ? { queue: target }
        : { exchange: exchangePart(target), routing_key: key === "" ? undefined : key };
    await attempt(async () => {
      const path = url(["queues", props.vhost, props.name, "move"]);
      sayMoved(await post<Moved>(path, { destination, count: many }));
      props.onDone();
    });
  };
  return (
    <Card title="Move messages from the head of this queue">
      <Form action="Move…" onSend={send} disabled={props.ready === 0}>
        <Choice
          label="To"
          value={kind}
          onValue={setKind}
          options={[
            ["queue", "a queue"],
            ["exchange", "an exchange"],
          ]}
        />
        <Field
          label={kind === "queue" ? "Queue" : "Exchange"}
          value={target}
          onValue={setTarget}
          suggestions={names.filter((name) => name !== props.name)}
          required
        />
        {kind === "exchange" && (
          <Field
            label="Routing key"
            value={key}
            onValue={setKey}
            hint="empty: each keeps its own"
          />
        )}
        <Field
          label="How many"
          type="number"
          value={count}
          onValue={setCount}
          placeholder={`all ${whole(props.ready)}`}
        />
      </Form>
    </Card>
  );
}
