import assert from "node:assert/strict";
import { test } from "node:test";

import { HEIGHT, layoutDiagram, WIDE } from "../src/diagram";
import { historyOf, matches } from "../src/message-history";
import type { Binding, Message } from "../src/types";

function bind(
  source: string,
  destination: string,
  key = "",
  kind: "queue" | "exchange" = "queue",
): Binding {
  return {
    source,
    destination,
    destination_type: kind,
    vhost: "/",
    routing_key: key,
    arguments: {},
    properties_key: key || "~",
  };
}

test("boxes do not overlap, and queues are in the last column", () => {
  const bindings = [
    bind("a", "b", "#", "exchange"),
    bind("b", "a", "#", "exchange"),
    bind("a", "a", "#", "exchange"),
    bind("b", "q1"),
    bind("a", "q1"),
    bind("a", "q2", "x"),
    bind("a", "q2", "y"),
    bind("c", "q3"),
  ];
  const { boxes, arrows, width, height } = layoutDiagram(bindings, "queue:q2", 100);
  for (const [at, one] of boxes.entries()) {
    assert.ok(one.x >= 0 && one.x + WIDE.width <= width && one.y >= 0 && one.y + HEIGHT <= height);
    for (const other of boxes.slice(at + 1)) {
      const apart = Math.abs(one.x - other.x) >= WIDE.width || Math.abs(one.y - other.y) >= HEIGHT;
      assert.ok(apart, `${one.id} and ${other.id}`);
    }
  }
  const queues = boxes.filter((box) => box.kind === "queue").map((box) => box.x);
  assert.equal(Math.min(...queues), Math.max(...boxes.map((box) => box.x)));
  assert.equal(arrows.find((arrow) => arrow.full === "x, y")?.label, "x +1");
  assert.deepEqual(
    boxes.filter((box) => box.focus).map((box) => box.name),
    ["q2"],
  );
});

test("labels of arrows that end in one box are beside the boxes where they begin", () => {
  const { arrows } = layoutDiagram([bind("a", "q", "x"), bind("b", "q", "y")], "", 10);
  const [first, second] = arrows;
  assert.ok(Math.abs(first.y - second.y) >= HEIGHT, `${first.y} and ${second.y}`);
  assert.ok(first.x < WIDE.width + WIDE.gap / 2 + 20);
});

test("no bindings and too many bindings are both drawn", () => {
  assert.equal(layoutDiagram([], "", 10).boxes.length, 0);
  const many = Array.from({ length: 30 }, (_, index) => bind("a", `q${index}`));
  assert.equal(layoutDiagram(many, "", 10).omitted, 20);
});

const message: Message = {
  offset: 4,
  exchange: "dead",
  routing_key: "k",
  redelivered: false,
  deliveries: 0,
  stored_at: null,
  payload_bytes: 5,
  payload: "hello",
  payload_encoding: "string",
  properties: {
    message_id: "m-1",
    timestamp: 100,
    headers: {
      "x-death": [
        {
          queue: "later",
          reason: "expired",
          time: 300,
          exchange: "dead",
          count: 2,
          "routing-keys": ["k"],
        },
        {
          queue: "first",
          reason: "rejected",
          time: 200,
          exchange: "shop",
          "routing-keys": ["order"],
        },
      ],
    },
  },
};

test("the history of a message starts with its publish", () => {
  const stations = historyOf({ vhost: "/", queue: "grave", message, ready: true });
  assert.deepEqual(
    stations.map((one) => one.text),
    [
      "Published to shop",
      "Dead-lettered from first",
      "Dead-lettered from later",
      "Stored in grave",
    ],
  );
  assert.deepEqual(
    stations.map((one) => one.at),
    [100_000, 200_000, 300_000, null],
  );
  assert.equal(stations[2].detail, "expired, 2 times");
});

test("recorded events are part of the history and end it", () => {
  const found = {
    vhost: "/",
    queue: "grave",
    message: { ...message, properties: [] as [] },
    ready: false,
  };
  const again = { kind: "redelivered", time: 400_000, consumer: "c1" };
  const done = { kind: "acknowledged", time: 500_000, consumer: "c2" };
  assert.deepEqual(
    historyOf(found, [again])
      .map((one) => one.text)
      .slice(1),
    ["Redelivered", "Was stored in grave"],
  );
  const whole = historyOf(found, [again, done]);
  assert.deepEqual(
    [whole.length, whole.at(-1)?.text, whole.at(-1)?.detail],
    [3, "Acknowledged", "in grave, by c2"],
  );
  assert.ok(whole.every((one) => !one.bad));
});

test("a message matches by id, key or text", () => {
  assert.ok(matches(message, "message_id", "m-1"));
  assert.ok(matches(message, "routing_key", "k"));
  assert.ok(matches(message, "text", "ell"));
  assert.ok(!matches(message, "correlation_id", "m-1"));
  assert.ok(!matches({ ...message, properties: [] }, "message_id", "m-1"));
});
