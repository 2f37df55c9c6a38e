/** History of a message, from its headers, recorded events and position. Pure. */

import type { Json, Message } from "./types";

export interface FoundMessage {
  vhost: string;
  queue: string;
  message: Message;
  ready: boolean;
}

export interface HistoryEntry {
  at: number | null; // ms since 1970
  text: string;
  detail: string;
  bad: boolean;
}

export type Criterion = "message_id" | "correlation_id" | "routing_key" | "text";

function properties(message: Message): Json {
  return Array.isArray(message.properties) ? {} : message.properties;
}

export function matches(message: Message, by: Criterion, wanted: string): boolean {
  if (by === "routing_key") return message.routing_key === wanted;
  if (by === "text")
    return message.payload_encoding === "string" && message.payload.includes(wanted);
  return properties(message)[by] === wanted;
}

interface Death {
  queue?: unknown;
  reason?: unknown;
  count?: unknown;
  exchange?: unknown;
  time?: unknown;
  "routing-keys"?: unknown;
}

function deathsOf(message: Message): Death[] {
  const headers = properties(message).headers;
  const history =
    typeof headers === "object" && headers !== null ? (headers as Json)["x-death"] : [];
  return Array.isArray(history) ? (history as Death[]) : [];
}

/** An event that the broker recorded for a message. */
export interface RecordedEvent {
  kind: string;
  time: number;
  consumer: string;
}

const EVENT_NAMES: Record<string, string> = {
  acknowledged: "Acknowledged",
  redelivered: "Redelivered",
  expired: "Expired",
  "dead-lettered": "Dead-lettered",
  dropped: "Dropped",
};

/** Oldest first: publish, dead-letterings, recorded events, where it is now. */
export function historyOf(
  found: FoundMessage,
  events: readonly RecordedEvent[] = [],
): HistoryEntry[] {
  const { message } = found;
  const entries: HistoryEntry[] = [];
  const written = properties(message).timestamp;
  // x-death has the newest death first.
  const deaths = deathsOf(message).reverse();
  const first = deaths[0];
  const keys = Array.isArray(first?.["routing-keys"])
    ? first["routing-keys"].join(", ")
    : message.routing_key;
  const exchange = first ? String(first.exchange ?? "") : message.exchange;
  entries.push({
    at: typeof written === "number" ? written * 1000 : null,
    text: `Published to ${exchange || "the default exchange"}`,
    detail: `key “${keys}”`,
    bad: false,
  });
  for (const death of deaths) {
    const count =
      typeof death.count === "number" && death.count > 1 ? `, ${death.count} times` : "";
    entries.push({
      at: typeof death.time === "number" ? death.time * 1000 : null,
      text: `Dead-lettered from ${String(death.queue ?? "?")}`,
      detail: `${String(death.reason ?? "unknown")}${count}`,
      bad: true,
    });
  }
  for (const event of events) {
    entries.push({
      at: event.time,
      text: EVENT_NAMES[event.kind] ?? event.kind,
      detail: `in ${found.queue}${event.consumer ? `, by ${event.consumer}` : ""}`,
      bad: event.kind !== "acknowledged" && event.kind !== "redelivered",
    });
  }
  if (events.some((event) => event.kind !== "redelivered")) return entries;
  entries.push({
    at: message.stored_at,
    text: `${found.ready ? "Stored" : "Was stored"} in ${found.queue}`,
    detail: placeOf(found),
    bad: false,
  });
  return entries;
}

function placeOf(found: FoundMessage): string {
  const { message } = found;
  if (!found.ready) return "delivered or settled, still in the log";
  return message.deliveries > 0
    ? `ready, delivered ${message.deliveries} times`
    : "ready, not delivered yet";
}
