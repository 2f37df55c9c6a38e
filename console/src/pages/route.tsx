/** Routing test: which queues a message would reach, and why. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { post } from "../api";
import { useAddress } from "../navigation";
import { vhost } from "../state";
import { Badge, Card, PageHead } from "../ui/basics";
import { Field, Form, KeyValueFields, type KeyValues, objectOf } from "../ui/form";
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

interface Explanation {
  routed: boolean;
  queues: string[];
  steps: Step[];
}

export function RoutePage(): JSX.Element {
  const { query } = useAddress();
  const [where, setWhere] = useState(query.vhost ?? vhost.value ?? "/");
  const [exchange, setExchange] = useState(query.exchange ?? "");
  const [key, setKey] = useState(query.key ?? "");
  const [headers, setHeaders] = useState<KeyValues>([]);
  const [result, setResult] = useState<{
    explained: Explanation;
    vhost: string;
    at: number;
  } | null>(null);
  const names = useNames("exchanges", where);
  const test = (): Promise<unknown> =>
    attempt(async () => {
      const body = {
        vhost: where,
        exchange,
        routing_key: key,
        properties: { headers: objectOf(headers) },
      };
      const explained = await post<Explanation>("/api/route", body);
      setResult({ explained, vhost: where, at: (result?.at ?? 0) + 1 });
    });
  return (
    <>
      <PageHead title="Test routing" />
      <Card>
        <Form action="Test" onSend={test}>
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
          <KeyValueFields label="Headers" pairs={headers} onPairs={setHeaders} />
        </Form>
        <p class="muted">Nothing is published.</p>
      </Card>
      {result && (
        <RoutingResult key={result.at} explained={result.explained} vhost={result.vhost} />
      )}
    </>
  );
}

function RoutingResult(props: { explained: Explanation; vhost: string }): JSX.Element {
  const { explained } = props;
  return (
    <Card
      title={
        explained.routed
          ? `Routed to ${explained.queues.length === 1 ? "one queue" : `${explained.queues.length} queues`}`
          : "Not routed"
      }
    >
      {!explained.routed && (
        <p class="note-box warn">
          The message would be dropped, or returned if it is published as mandatory.
        </p>
      )}
      <ol class="steps" aria-label="Routing steps">
        {explained.steps.map((step, index) => (
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
              {step.delayed && "; delayed by its x-delay header"}
            </span>
          </li>
        ))}
      </ol>
    </Card>
  );
}
