/** Where would this message go, and why? */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { post } from "../api";
import { usePlace } from "../place";
import { vhost } from "../state";
import { Badge, Card, PageHead } from "../ui/basics";
import { Field, Form, objectOf, PairRows, type Pairs } from "../ui/form";
import { ExchangeLink, QueueLink } from "../ui/links";
import { attempt } from "../ui/notices";
import { useNames, VhostField } from "../ui/vhost-field";

interface Step {
  exchange: string;
  type: string;
  destination?: string;
  destination_type?: string;
  reason: string;
  delayed?: boolean;
}

interface Explained {
  routed: boolean;
  queues: string[];
  steps: Step[];
}

export function RoutePage(): JSX.Element {
  const { query } = usePlace();
  const [where, setWhere] = useState(query.vhost ?? vhost.value ?? "/");
  const [exchange, setExchange] = useState(query.exchange ?? "");
  const [key, setKey] = useState(query.key ?? "");
  const [headers, setHeaders] = useState<Pairs>([]);
  const [told, setTold] = useState<{ answer: Explained; vhost: string; at: number } | null>(null);
  const names = useNames("exchanges", where);
  const ask = (): Promise<unknown> =>
    attempt(async () => {
      const body = {
        vhost: where,
        exchange,
        routing_key: key,
        properties: { headers: objectOf(headers) },
      };
      const answer = await post<Explained>("/api/route", body);
      setTold({ answer, vhost: where, at: (told?.at ?? 0) + 1 });
    });
  return (
    <>
      <PageHead title="Where would this message go?" />
      <Card>
        <Form action="Ask" onSend={ask}>
          <VhostField value={where} onValue={setWhere} />
          <Field
            label="Exchange"
            value={exchange}
            onValue={setExchange}
            suggestions={names}
            placeholder="(default exchange)"
            autofocus
          />
          <Field label="Routing key" value={key} onValue={setKey} />
          <PairRows label="Headers" pairs={headers} onPairs={setHeaders} />
        </Form>
        <p class="muted">Nothing is published.</p>
      </Card>
      {told && <Answer key={told.at} answer={told.answer} vhost={told.vhost} />}
    </>
  );
}

function Answer(props: { answer: Explained; vhost: string }): JSX.Element {
  const { answer } = props;
  return (
    <Card
      title={
        answer.routed
          ? `To ${answer.queues.length === 1 ? "one queue" : `${answer.queues.length} queues`}`
          : "To no queue"
      }
    >
      {!answer.routed && (
        <p class="note-box warn">
          It would be dropped, or returned to a publisher that asks for it (mandatory).
        </p>
      )}
      <ol class="steps" aria-label="Way of the message">
        {answer.steps.map((step, index) => (
          <li key={index} class={step.destination === undefined ? "bad" : undefined}>
            <ExchangeLink vhost={props.vhost} name={step.exchange} bare />{" "}
            <Badge tone="info">{step.type}</Badge>{" "}
            {step.destination !== undefined && (
              <>
                →{" "}
                {step.destination_type === "queue" ? (
                  <>
                    queue <QueueLink vhost={props.vhost} name={step.destination} bare />
                  </>
                ) : (
                  <>
                    exchange <ExchangeLink vhost={props.vhost} name={step.destination} bare />
                  </>
                )}
              </>
            )}
            <span class="sub">
              {step.reason}
              {step.delayed && "; it is held back first, as its header x-delay says"}
            </span>
          </li>
        ))}
      </ol>
    </Card>
  );
}
