/** Form that moves messages to another queue or exchange. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { post } from "../api";
import { plural, whole } from "../format";
import { Card } from "../ui/basics";
import { confirmAction } from "../ui/dialog";
import { Field, Form, Select } from "../ui/form";
import { attempt, notify } from "../ui/notices";
import { useNames } from "../ui/vhost-field";
import { exchangePart, url } from "../urls";

export interface Moved {
  moved: number;
  left: number;
  stopped: string | null;
}

export function notifyMoved(result: Moved): void {
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
    const sure = await confirmAction({
      title: "Move messages?",
      text: `Moves ${plural(many, "message")} from the head of ${props.name} to ${kind} ${target}. Each message is moved atomically.`,
      action: "Move",
    });
    if (!sure) return;
    const destination =
      kind === "queue"
        ? { queue: target }
        : { exchange: exchangePart(target), routing_key: key === "" ? undefined : key };
    await attempt(async () => {
      const path = url(["queues", props.vhost, props.name, "move"]);
      notifyMoved(await post<Moved>(path, { destination, count: many }));
      props.onDone();
    });
  };
  return (
    <Card title="Move messages from the head of the queue">
      <Form action="Move…" onSend={send} disabled={props.ready === 0}>
        <Select
          label="To"
          value={kind}
          onValue={setKind}
          options={[
            ["queue", "queue"],
            ["exchange", "exchange"],
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
            hint="empty: keep the key of each message"
          />
        )}
        <Field
          label="Count"
          type="number"
          value={count}
          onValue={setCount}
          placeholder={`all ${whole(props.ready)}`}
        />
      </Form>
    </Card>
  );
}
