import assert from "node:assert/strict";
import { test } from "node:test";

import {
  ago,
  bytes,
  compact,
  duration,
  latency,
  moment,
  rate,
  shortened,
  singular,
  typed,
  whole,
} from "../src/format";

test("numbers keep three digits and their unit", () => {
  assert.equal(compact(0), "0");
  assert.equal(compact(999), "999");
  assert.equal(compact(999.6), "1k");
  assert.equal(compact(1234), "1.23k");
  assert.equal(compact(12_345_678), "12.3M");
  assert.equal(compact(-1500), "-1.5k");
  assert.equal(whole(1234567), "1,234,567");
  assert.equal(rate(0.25), "0.25/s");
  assert.equal(rate(0.0001), "0/s");
});

test("bytes are counted in powers of two", () => {
  assert.equal(bytes(0), "0 B");
  assert.equal(bytes(1023), "1023 B");
  assert.equal(bytes(1536), "1.5 KiB");
  assert.equal(bytes(10 * 2 ** 30), "10 GiB");
});

test("unknown values are shown as a dash", () => {
  for (const format of [whole, compact, bytes, rate, latency, duration, moment]) {
    assert.equal(format(undefined), "–");
    assert.equal(format(null), "–");
    assert.equal(format(NaN), "–");
  }
});

test("durations have at most two units", () => {
  assert.equal(duration(0), "0 s");
  assert.equal(duration(59.6), "1 min");
  assert.equal(duration(200), "3 min 20 s");
  assert.equal(duration(3600), "1 h");
  assert.equal(duration(90_061), "1 d 1 h");
  assert.equal(latency(0.00085), "850 µs");
  assert.equal(latency(0.0032), "3.2 ms");
  assert.equal(latency(1.5), "1.5 s");
  assert.equal(ago(1000, 3000), "just now");
  assert.equal(ago(0, 65_000), "1 min 5 s ago");
});

test("text is truncated between characters", () => {
  assert.equal(shortened("abcdef", 6), "abcdef");
  assert.equal(shortened("abcdefg", 6), "abcde…");
  assert.equal(shortened("😀😀😀", 2), "😀…");
});

test("typed values become numbers, booleans or JSON only if they are", () => {
  assert.equal(typed("5000"), 5000);
  assert.equal(typed("-1.5"), -1.5);
  assert.equal(typed("true"), true);
  assert.deepEqual(typed('{"a": [1]}'), { a: [1] });
  assert.equal(typed('"5000"'), "5000");
  assert.equal(typed("007"), "007");
  assert.equal(typed("[broken"), "[broken");
  assert.equal(typed("drop-head"), "drop-head");
});

test("singular and plural nouns", () => {
  assert.deepEqual(["queues", "virtual hosts", "policies"].map(singular), [
    "queue",
    "virtual host",
    "policy",
  ]);
});
