/** Layout of the map: publishers, exchanges, queues and topics, readers. Pure. */

import { trendOf } from "./lag";
import { appendRecent, type Point } from "./series";
import type { Binding, Connection, Consumer, Exchange, Group, Queue, Stats } from "./types";
import { rateOf } from "./types";

export type Kind = "publisher" | "exchange" | "queue" | "topic" | "consumer" | "group";

export interface MapNode {
  id: string;
  kind: Kind;
  name: string;
  note: string; // second line
  rate: number | null; // messages a second; null: not known
  parts: string[]; // address of its page
  x: number;
  y: number;
}

export interface MapEdge {
  id: string;
  from: MapNode;
  to: MapNode;
  rate: number;
}

export interface BrokerMap {
  nodes: MapNode[];
  edges: MapEdge[];
  width: number;
  height: number;
  omitted: number;
}

export interface MapInput {
  connections: Connection[];
  channels: { connection_details: { name: string }; message_stats?: Stats }[];
  exchanges: Exchange[];
  bindings: Binding[];
  queues: Queue[];
  consumers: Consumer[];
  groups: Group[];
  /** Of topics and groups, by the id of their node: see offsetRates(). */
  rates: ReadonlyMap<string, number>;
}

const SPAN = 30_000; // ms over which the rates of topics and groups are averaged

function groupId(one: Group): string {
  return `group ${one.vhost} ${one.topic || one.queue || ""} ${one.name}`;
}

/** Adds the offsets of one poll to `history` and returns how fast they advance. */
export function offsetRates(
  history: Map<string, Point[]>,
  groups: readonly Group[],
  at: number,
): Map<string, number> {
  for (const one of groups) {
    const add = (id: string, field: "position" | "end"): void => {
      const value = one.lanes.reduce((sum, lane) => sum + lane[field], 0);
      history.set(id, appendRecent(history.get(id) ?? [], [{ at, value }], SPAN));
    };
    add(groupId(one), "position");
    if (one.topic) add(`exchange ${one.vhost} topic.${one.topic}`, "end");
  }
  const rates = new Map<string, number>();
  for (const [id, points] of history) {
    const trend = trendOf(points);
    if (trend !== null) rates.set(id, Math.max(0, trend));
  }
  return rates;
}

export const BOX = { width: 190, height: 44 };
const GAP = { x: 110, y: 16 };
const MARGIN = 12;
const MOST = 40; // boxes in a column
const COLUMNS: Kind[][] = [["publisher"], ["exchange"], ["queue", "topic"], ["consumer", "group"]];

type Draft = Omit<MapNode, "x" | "y">;

export function layoutMap(input: MapInput): BrokerMap {
  const nodes = new Map<string, Draft>();
  const links = new Map<string, { from: string; to: string; rate: number }>();
  const add = (node: Draft): void => {
    const before = nodes.get(node.id);
    if (before) before.rate = (before.rate ?? 0) + (node.rate ?? 0);
    else nodes.set(node.id, node);
  };
  const connect = (from: string, to: string, rate: number): void => {
    const id = JSON.stringify([from, to]);
    const before = links.get(id);
    links.set(id, { from, to, rate: Math.max(rate, before?.rate ?? 0) });
  };
  addStores(input, add);
  addPublishers(input, add, connect);
  addBindings(input, connect);
  addReaders(input, add, connect);
  // What neither sends nor gets anything here is left out: exchanges that are not used.
  const linked = new Set([...links.values()].flatMap((one) => [one.from, one.to]));
  const kept = [...nodes.values()].filter(
    (one) => linked.has(one.id) || one.kind === "queue" || one.kind === "topic",
  );
  return placed(kept, [...links.values()]);
}

function addStores(input: MapInput, add: (node: Draft) => void): void {
  for (const one of input.exchanges) {
    const id = `exchange ${one.vhost} ${one.name}`;
    const published = rateOf(one.message_stats, "publish_in") ?? 0;
    add({
      id,
      kind: one.type === "x-topic" ? "topic" : "exchange",
      name: one.name.replace(/^topic\./, "") || "(default exchange)",
      note: one.type === "x-topic" ? "topic" : one.type,
      rate: one.type === "x-topic" ? (input.rates.get(id) ?? null) : published,
      parts:
        one.type === "x-topic"
          ? ["topics", one.vhost, one.name.replace(/^topic\./, "")]
          : ["exchanges", one.vhost, one.name],
    });
  }
  for (const one of input.queues) {
    add({
      id: `queue ${one.vhost} ${one.name}`,
      kind: "queue",
      name: one.name,
      note: `${one.messages_ready.toLocaleString("en-US")} ready`,
      rate: rateOf(one.message_stats, "publish") ?? 0,
      parts: ["queues", one.vhost, one.name],
    });
  }
}

type Connect = (from: string, to: string, rate: number) => void;

function addPublishers(input: MapInput, add: (node: Draft) => void, connect: Connect): void {
  const rates = new Map<string, number>();
  for (const one of input.channels) {
    const name = one.connection_details.name;
    rates.set(name, (rates.get(name) ?? 0) + (rateOf(one.message_stats, "publish") ?? 0));
  }
  for (const one of input.connections) {
    const targets = one.publishes_to ?? [];
    if (targets.length === 0) continue;
    const id = `publisher ${one.vhost} ${one.user_provided_name ?? one.name}`;
    const rate = rates.get(one.name) ?? 0;
    add({
      id,
      kind: "publisher",
      name: one.user_provided_name ?? one.peer_host,
      note: one.user,
      rate,
      parts: ["connections", one.name],
    });
    for (const { exchange, routing_key } of targets) {
      const target = `exchange ${one.vhost} ${exchange}`;
      connect(id, target, rate);
      if (exchange === "") connect(target, `queue ${one.vhost} ${routing_key}`, rate);
    }
  }
}

function addBindings(input: MapInput, connect: Connect): void {
  const rates = new Map(
    input.queues.map((one) => [
      `queue ${one.vhost} ${one.name}`,
      rateOf(one.message_stats, "publish") ?? 0,
    ]),
  );
  for (const one of input.bindings) {
    if (one.source === "") continue; // every queue has one to the default exchange
    const to = `${one.destination_type} ${one.vhost} ${one.destination}`;
    connect(`exchange ${one.vhost} ${one.source}`, to, rates.get(to) ?? 0);
  }
}

function addReaders(input: MapInput, add: (node: Draft) => void, connect: Connect): void {
  const speed = new Map(
    input.queues.map((one) => [
      `queue ${one.vhost} ${one.name}`,
      (rateOf(one.message_stats, "deliver_get") ?? 0) / Math.max(1, one.consumers),
    ]),
  );
  for (const one of input.consumers) {
    const source = `queue ${one.queue.vhost} ${one.queue.name}`;
    const details = one.channel_details;
    const id = `consumer ${details.user_provided_name ?? details.connection_name ?? ""}`;
    add({
      id,
      kind: "consumer",
      name: details.user_provided_name ?? details.peer_host ?? one.consumer_tag,
      note: `${(one.unacknowledged ?? 0).toLocaleString("en-US")} unacked`,
      rate: speed.get(source) ?? 0,
      parts: ["connections", details.connection_name ?? ""],
    });
    connect(source, id, speed.get(source) ?? 0);
  }
  for (const one of input.groups) {
    const queue = one.queue ?? "";
    const id = groupId(one);
    const speed = input.rates.get(id) ?? null;
    const source = queue
      ? `queue ${one.vhost} ${queue}`
      : `exchange ${one.vhost} topic.${one.topic}`;
    const isSpark = one.name.startsWith("spark.");
    add({
      id,
      kind: "group",
      name: isSpark ? one.name.slice(6) : one.name,
      note: `${isSpark ? "pipeline" : "group"}, lag ${one.messages.toLocaleString("en-US")}`,
      rate: speed,
      parts: queue || isSpark ? ["pipelines"] : ["groups", one.vhost, one.topic, one.name],
    });
    connect(source, id, speed ?? 0);
  }
}

function placed(drafts: Draft[], links: { from: string; to: string; rate: number }[]): BrokerMap {
  const columns = COLUMNS.map((kinds) =>
    drafts
      .filter((one) => kinds.includes(one.kind))
      .sort((a, b) => (b.rate ?? 0) - (a.rate ?? 0) || a.name.localeCompare(b.name)),
  );
  const shown = columns.map((column) => column.slice(0, MOST));
  const tallest = Math.max(1, ...shown.map((column) => column.length));
  const step = BOX.height + GAP.y;
  const height = tallest * step - GAP.y + 2 * MARGIN;
  const nodes = new Map<string, MapNode>();
  shown.forEach((column, at) => {
    const top = (height - (column.length * step - GAP.y)) / 2;
    column.forEach((one, row) => {
      nodes.set(one.id, {
        ...one,
        x: MARGIN + at * (BOX.width + GAP.x),
        y: top + row * step,
      });
    });
  });
  const edges = links.flatMap(({ from, to, rate }) => {
    const [first, second] = [nodes.get(from), nodes.get(to)];
    return first && second ? [{ id: `${from} ${to}`, from: first, to: second, rate }] : [];
  });
  return {
    nodes: [...nodes.values()],
    edges,
    width: MARGIN * 2 + COLUMNS.length * BOX.width + (COLUMNS.length - 1) * GAP.x,
    height,
    omitted: drafts.length - nodes.size,
  };
}
