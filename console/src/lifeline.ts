/** The life of a message, as far as its own headers and its place tell. Pure. */

import type { Json, Message } from "./types";

export interface Found {
  vhost: string;
  queue: string;
  message: Message;
  ready: boolean;
}

export interface Station {
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

/** What the broker noted of a message. */
export interface Fate {
  kind: string;
  time: number;
  consumer: string;
}

const FATES: Record<string, string> = {
  acknowledged: "Acknowledged",
  redelivered: "Delivered again",
  expired: "Expired",
  "dead-lettered": "Sent to the dead letters",
  dropped: "Dropped",
};

/** Oldest first: published, how it died and came back, what was noted of it here, where it is. */
export function stationsOf(found: Found, fates: readonly Fate[] = []): Station[] {
  const { message } = found;
  const stations: Station[] = [];
  const written = properties(message).timestamp;
  // x-death has the newest death first.
  const deaths = deathsOf(message).reverse();
  const first = deaths[0];
  const keys = Array.isArray(first?.["routing-keys"])
    ? first["routing-keys"].join(", ")
    : message.routing_key;
  const exchange = first ? String(first.exchange ?? "") : message.exchange;
  stations.push({
    at: typeof written === "number" ? written * 1000 : null,
    text: `Published to ${exchange || "the default exchange"}`,
    detail: `key “${keys}”`,
    bad: false,
  });
  for (const death of deaths) {
    const count =
      typeof death.count === "number" && death.count > 1 ? `, ${death.count} times` : "";
    stations.push({
      at: typeof death.time === "number" ? death.time * 1000 : null,
      text: `Died in ${String(death.queue ?? "?")}`,
      detail: `${String(death.reason ?? "unknown")}${count}`,
      bad: true,
    });
  }
  for (const fate of fates) {
    stations.push({
      at: fate.time,
      text: FATES[fate.kind] ?? fate.kind,
      detail: `in ${found.queue}${fate.consumer ? `, by ${fate.consumer}` : ""}`,
      bad: fate.kind !== "acknowledged" && fate.kind !== "redelivered",
    });
  }
  if (fates.some((fate) => fate.kind !== "redelivered")) return stations;
  stations.push({
    at: message.stored_at,
    text: `${found.ready ? "Is" : "Was"} in ${found.queue}`,
    detail: placeOf(found),
    bad: false,
  });
  return stations;
}

function placeOf(found: Found): string {
  const { message } = found;
  if (!found.ready) return "handed out or done with, and still kept on disk";
  return message.deliveries > 0
    ? `ready, delivered ${message.deliveries} times before`
    : "ready, not delivered yet";
}
