/** List of messages; each expands to properties, headers and payload. */

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";

import { bytes, exchangeName, moment, shortened } from "../format";
import { payloadOf, type Task } from "../payload";
import type { Json, Message } from "../types";
import { Badge, Facts, Values } from "./basics";

export function propertiesOf(message: Message): Json {
  return Array.isArray(message.properties) ? {} : message.properties;
}

export function headersOf(message: Message): Json {
  const headers = propertiesOf(message).headers;
  return typeof headers === "object" && headers !== null ? (headers as Json) : {};
}

export function MessageList(props: {
  messages: readonly Message[];
  more?: (message: Message) => ComponentChildren;
}): JSX.Element {
  const [open, setOpen] = useState<number | null>(null);
  return (
    <ul class="messages">
      {props.messages.map((message) => (
        <li key={message.offset}>
          <button
            type="button"
            class="message-line"
            aria-expanded={open === message.offset}
            onClick={() => setOpen(open === message.offset ? null : message.offset)}
          >
            <span class="muted">#{message.offset}</span>
            <span>{message.routing_key || exchangeName(message.exchange)}</span>
            <span class="preview">{preview(message)}</span>
            <span class="size">{bytes(message.payload_bytes)}</span>
          </button>
          {open === message.offset && (
            <>
              <MessageBody message={message} />
              {props.more && <div class="pad">{props.more(message)}</div>}
            </>
          )}
        </li>
      ))}
    </ul>
  );
}

function preview(message: Message): string {
  const { kind, text, task } = payloadOf(message);
  if (task) return shortened(`${task.name} ${task.args} ${task.kwargs}`, 200);
  return kind === "binary" ? "(binary)" : shortened(text.replace(/\s+/g, " "), 200);
}

function TaskFacts(props: { task: Task }): JSX.Element {
  const { task } = props;
  return (
    <div>
      <h3>Celery task</h3>
      <Facts
        rows={[
          ["Name", <code>{task.name}</code>],
          ["Arguments", <code>{task.args}</code>],
          ["Keywords", <code>{task.kwargs}</code>],
          ["Retries", String(task.retries)],
          ["ETA", task.eta ?? "as soon as possible"],
          ["Expires", task.expires ?? "never"],
          ["Id", <code>{task.id}</code>],
        ]}
      />
    </div>
  );
}

export function MessageBody(props: { message: Message; inside?: boolean }): JSX.Element {
  const { message } = props;
  const { headers: _, ...properties } = propertiesOf(message);
  const payload = payloadOf(message);
  const cut =
    message.payload_encoding === "string"
      ? new TextEncoder().encode(message.payload).length < message.payload_bytes
      : Math.floor((message.payload.replace(/=+$/, "").length * 3) / 4) < message.payload_bytes;
  return (
    <div class={props.inside ? "message-body inside" : "message-body"}>
      <div class="stack">
        {payload.task && <TaskFacts task={payload.task} />}
        <Facts
          rows={[
            ["Exchange", exchangeName(message.exchange)],
            ["Routing key", message.routing_key || "–"],
            ["Deliveries", String(message.deliveries)],
            ...(message.stored_at
              ? [["Stored", moment(message.stored_at)] as [string, string]]
              : []),
          ]}
        />
        <div>
          <h3>Properties</h3>
          <Values of={properties} />
        </div>
        <div>
          <h3>Headers</h3>
          <Values of={headersOf(message)} />
        </div>
      </div>
      <div>
        <h3>
          Payload, {bytes(message.payload_bytes)} <Badge>{payload.kind}</Badge>{" "}
          {cut && <Badge tone="warn">truncated</Badge>}
        </h3>
        <pre class="payload">{payload.text}</pre>
      </div>
    </div>
  );
}
