/** List of messages; each expands to properties, headers and payload. */

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";

import { bytes, exchangeName, moment, pretty, shortened } from "../format";
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
  if (message.payload_encoding === "base64") return "(binary)";
  return shortened(message.payload.replace(/\s+/g, " "), 200);
}

export function MessageBody(props: { message: Message; inside?: boolean }): JSX.Element {
  const { message } = props;
  const { headers: _, ...properties } = propertiesOf(message);
  const shown = message.payload_encoding === "string" ? pretty(message.payload) : message.payload;
  const cut =
    message.payload_encoding === "string"
      ? new TextEncoder().encode(message.payload).length < message.payload_bytes
      : Math.floor((message.payload.replace(/=+$/, "").length * 3) / 4) < message.payload_bytes;
  return (
    <div class={props.inside ? "message-body inside" : "message-body"}>
      <div class="stack">
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
          Payload, {bytes(message.payload_bytes)}{" "}
          {message.payload_encoding === "base64" && <Badge>base64</Badge>}{" "}
          {cut && <Badge tone="warn">truncated</Badge>}
        </h3>
        <pre class="payload">{shown}</pre>
      </div>
    </div>
  );
}
