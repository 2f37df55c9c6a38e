import assert from "node:assert/strict";
import { test } from "node:test";

import { csvOf } from "../src/export";
import { layoutMap, type MapInput, offsetRates } from "../src/map";
import { decodeMsgpack } from "../src/msgpack";
import { payloadOf } from "../src/payload";
import type { Point } from "../src/series";
import type { Group, Message } from "../src/types";

function message(payload: string, encoding: "string" | "base64" = "string", headers = {}): Message {
  return {
    offset: 0,
    exchange: "",
    routing_key: "q",
    redelivered: false,
    deliveries: 0,
    stored_at: null,
    payload_bytes: payload.length,
    properties: { headers },
    payload,
    payload_encoding: encoding,
  };
}

const base64 = (...bytes: number[]): string => Buffer.from(bytes).toString("base64");

test("JSON, text, MessagePack and bytes are told apart", () => {
  assert.deepEqual(payloadOf(message('{"a":1}')), { kind: "JSON", text: '{\n  "a": 1\n}' });
  assert.equal(payloadOf(message("12345")).kind, "text");
  assert.equal(payloadOf(message('{"a":12345678901234567890}')).text, '{"a":12345678901234567890}');
  const packed = payloadOf(message(base64(0x82, 0xa1, 0x61, 0x01, 0xa1, 0x62, 0xc3), "base64"));
  assert.deepEqual(packed, { kind: "MessagePack", text: '{\n  "a": 1,\n  "b": true\n}' });
  const bytes = payloadOf(message(base64(0xff, 0xd8, 0x41), "base64"));
  assert.equal(bytes.kind, "binary");
  assert.match(bytes.text, /^000000 {2}ff d8 41 +\.\.A$/);
});

test("a Celery task is shown with its arguments", () => {
  const headers = { task: "shop.invoice", id: "7", retries: 2, eta: "2026-01-01T00:00:00" };
  const { kind, task } = payloadOf(message('[[1, "a"], {"b": 2}, {}]', "string", headers));
  assert.equal(kind, "Celery task");
  assert.deepEqual(task, {
    name: "shop.invoice",
    id: "7",
    args: '[1,"a"]',
    kwargs: '{"b":2}',
    retries: 2,
    eta: "2026-01-01T00:00:00",
    expires: null,
  });
});

test("MessagePack: every kind of value, and what is none", () => {
  const values: [number[], unknown][] = [
    [[0xc0], null],
    [[0xe0], -32],
    [[0xcd, 1, 0], 256],
    [[0xd1, 0xff, 0xfe], -2],
    [[0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0], 1.5],
    [[0xcf, 0, 0, 0, 1, 0, 0, 0, 0], 2 ** 32],
    [[0xd9, 1, 0x61], "a"],
    [
      [0x92, 1, 0x91, 2],
      [1, [2]],
    ],
    [[0xde, 0, 1, 5, 6], { "5": 6 }],
    [[0xc4, 2, 1, 2], "(2 bytes: 01 02)"],
    [[0xd4, 7, 1], "(extension 7: (1 bytes: 01))"],
  ];
  for (const [bytes, value] of values)
    assert.deepEqual(decodeMsgpack(Uint8Array.from(bytes)), value);
  for (const bytes of [
    [],
    [0xc1],
    [0x92, 1],
    [1, 2],
    [0xdd, 0xff, 0xff, 0xff, 0xff],
    [0xa1, 0xff],
  ]) {
    assert.throws(() => decodeMsgpack(Uint8Array.from(bytes)));
  }
});

test("CSV quotes what needs it, and no cell is a formula", () => {
  const rows = [
    { name: 'a "b", c', n: 1 },
    { name: "=1+1", args: { x: 1 } },
  ];
  assert.equal(csvOf(rows), 'name,n,args\r\n"a ""b"", c",1,\r\n\'=1+1,,"{""x"":1}"');
});

const EMPTY: MapInput = {
  connections: [],
  channels: [],
  exchanges: [],
  bindings: [],
  queues: [],
  consumers: [],
  groups: [],
  rates: new Map(),
};

test("the map leads from a publisher to a consumer", () => {
  const input = {
    ...EMPTY,
    rates: new Map([["group / q spark.daily", 2.5]]),
    connections: [
      { name: "c1", vhost: "/", user: "guest", user_provided_name: "shop", peer_host: "::1",
        publishes_to: [{ exchange: "x", routing_key: "k" }, { exchange: "", routing_key: "q" }] },
      { name: "c2", vhost: "/", user: "guest", peer_host: "::1" },
    ],
    channels: [
      { connection_details: { name: "c1" }, message_stats: { publish_details: { rate: 5 } } },
    ],
    exchanges: [
      { name: "x", vhost: "/", type: "topic" },
      { name: "", vhost: "/", type: "direct" },
      { name: "unused", vhost: "/", type: "fanout" },
    ],
    bindings: [
      { source: "x", vhost: "/", destination: "q", destination_type: "queue", routing_key: "k" },
    ],
    queues: [
      { name: "q", vhost: "/", messages_ready: 3, consumers: 1,
        message_stats: { publish_details: { rate: 5 }, deliver_get_details: { rate: 4 } } },
    ],
    consumers: [
      { consumer_tag: "t", unacknowledged: 1, queue: { name: "q", vhost: "/" },
        channel_details: { connection_name: "c2", peer_host: "::1" } },
    ],
    groups: [
      { name: "spark.daily", vhost: "/", topic: "", queue: "q", messages: 9 },
    ],
  } as unknown as MapInput; // biome-ignore format: a table
  const { nodes, edges } = layoutMap(input);
  assert.deepEqual(
    nodes.map((one) => [one.kind, one.name, one.note, one.rate]),
    [
      ["publisher", "shop", "guest", 5],
      ["exchange", "(default exchange)", "direct", 0],
      ["exchange", "x", "topic", 0],
      ["queue", "q", "3 ready", 5],
      ["consumer", "::1", "1 unacked", 4],
      ["group", "daily", "pipeline, lag 9", 2.5],
    ],
  );
  assert.equal(edges.length, 6);
  assert.ok(edges.every((one) => one.from.x < one.to.x));
  assert.deepEqual(layoutMap(EMPTY).nodes, []);
});

test("rates of topics and groups come from their offsets", () => {
  const history = new Map<string, Point[]>();
  const group = (position: number, end: number): Group[] =>
    [{ name: "g", vhost: "/", topic: "t", lanes: [{ position, end }] }] as unknown as Group[];
  assert.deepEqual([...offsetRates(history, group(0, 100), 1_000)], []);
  assert.deepEqual(
    [...offsetRates(history, group(50, 300), 11_000)],
    [
      ["group / t g", 5],
      ["exchange / topic.t", 20],
    ],
  );
  // A reset to an earlier offset is not a negative rate.
  assert.equal(offsetRates(history, group(0, 300), 21_000).get("group / t g"), 0);
});
