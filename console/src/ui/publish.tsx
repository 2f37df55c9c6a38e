/** Form that publishes one message. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { post } from "../api";
import { exchangePart, url } from "../urls";
import { Field, Form, KeyValueFields, type KeyValues, objectOf, Select, TextArea } from "./form";
import { attempt, notify } from "./notices";

const PROPERTIES = [
  "content_type",
  "message_id",
  "correlation_id",
  "reply_to",
  "expiration",
  "priority",
  "type",
  "app_id",
  "content_encoding",
  "timestamp",
];

/** Properties in the API's format; only numeric ones are parsed. */
function propertiesOf(pairs: KeyValues, headers: KeyValues, mode: string): Record<string, unknown> {
  const properties: Record<string, unknown> = {};
  for (const [name, value] of pairs) {
    if (name) properties[name] = ["priority", "timestamp"].includes(name) ? Number(value) : value;
  }
  if (headers.length > 0) properties.headers = objectOf(headers);
  return { ...properties, delivery_mode: Number(mode) };
}

export function PublishForm(props: {
  vhost: string;
  exchange: string;
  /** Fixed when publishing to one queue. */
  routingKey?: string;
  onDone?: () => void;
}): JSX.Element {
  const [key, setKey] = useState("");
  const [payload, setPayload] = useState("");
  const [encoding, setEncoding] = useState("string");
  const [mode, setMode] = useState("2");
  const [pairs, setPairs] = useState<KeyValues>([]);
  const [headers, setHeaders] = useState<KeyValues>([]);
  const send = async (): Promise<void> => {
    const path = url(["exchanges", props.vhost, exchangePart(props.exchange), "publish"]);
    const body = {
      routing_key: props.routingKey ?? key,
      payload,
      payload_encoding: encoding,
      properties: propertiesOf(pairs, headers, mode),
    };
    await attempt(async () => {
      const { routed } = await post<{ routed: boolean }>(path, body);
      if (routed) notify("Message published.");
      else notify("Message not routed: no binding matches.", true);
      props.onDone?.();
    });
  };
  return (
    <Form action="Publish" onSend={send}>
      {props.routingKey === undefined && <Field label="Routing key" value={key} onValue={setKey} />}
      <Select
        label="Delivery mode"
        value={mode}
        onValue={setMode}
        options={[
          ["2", "persistent"],
          ["1", "transient"],
        ]}
      />
      <Select
        label="Payload encoding"
        value={encoding}
        onValue={setEncoding}
        options={[
          ["string", "text"],
          ["base64", "base64"],
        ]}
      />
      <TextArea label="Payload" value={payload} onValue={setPayload} rows={6} />
      <KeyValueFields
        label="Properties"
        pairs={pairs}
        onPairs={setPairs}
        suggestions={PROPERTIES}
      />
      <KeyValueFields label="Headers" pairs={headers} onPairs={setHeaders} />
    </Form>
  );
}
