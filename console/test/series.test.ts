import assert from "node:assert/strict";
import { test } from "node:test";

import { lagForecast, trendOf } from "../src/lag";
import { aligned, appendRecent, between, bucketsOf, quantile, ratesOf } from "../src/series";

const samples = (...values: number[]) =>
  values.map((sample, index) => ({ sample, timestamp: 100_000 - index * 5000 }));

test("rates are oldest first and never negative", () => {
  assert.deepEqual(ratesOf(samples(30, 10, 20)), [
    { at: 95_000, value: 0 },
    { at: 100_000, value: 4 },
  ]);
  assert.deepEqual(ratesOf(samples(5)), []);
});

test("series with different timestamps share one axis", () => {
  const [times, first, second] = aligned([
    [{ at: 1000, value: 1 }],
    [
      { at: 2000, value: 2 },
      { at: 1000, value: null },
    ],
  ]);
  assert.deepEqual(times, [1, 2]);
  assert.deepEqual(first, [1, null]);
  assert.deepEqual(second, [null, 2]);
});

test("old points are dropped and late points are ignored", () => {
  const points = [
    { at: 1, value: 1 },
    { at: 50, value: 2 },
  ];
  assert.deepEqual(
    appendRecent(points, [{ at: 100, value: 3 }], 60).map((one) => one.at),
    [50, 100],
  );
  assert.deepEqual(
    appendRecent(points, [{ at: 50, value: 9 }], 60).map((one) => one.value),
    [1, 2],
  );
});

const TEXT = `# TYPE x_seconds histogram
x_seconds_bucket{le="0.001"} 50.0
x_seconds_bucket{le="0.01"} 90.0
x_seconds_bucket{le="+Inf"} 100.0
x_seconds_count 100.0
y_seconds_bucket{le="0.001"} 7.0
`;

test("quantiles are read from Prometheus' text", () => {
  const buckets = bucketsOf(TEXT, "x_seconds");
  assert.ok(buckets);
  assert.equal(quantile(buckets, 0.5), 0.001);
  assert.equal(quantile(buckets, 0.25), 0.0005);
  assert.equal(quantile(buckets, 0.99), 0.01, "beyond the last bound it is the last bound");
  assert.equal(bucketsOf(TEXT, "z_seconds"), null);
});

test("only counts between two scrapes are used", () => {
  const first = { bounds: [1, Infinity], counts: [10, 10] };
  assert.equal(quantile(between(first, first), 0.5), null);
  assert.deepEqual(between(first, { bounds: [1, Infinity], counts: [10, 14] }).counts, [0, 4]);
  const restarted = { bounds: [1, Infinity], counts: [2, 3] };
  assert.deepEqual(between(first, restarted), restarted);
});

test("the forecast of a group's lag follows its trend", () => {
  const points = [
    { at: 0, value: 100 },
    { at: 10_000, value: 50 },
  ];
  assert.equal(trendOf(points), -5);
  assert.equal(trendOf([{ at: 0, value: 100 }]), null);
  assert.equal(lagForecast(0, null), "caught up");
  assert.equal(lagForecast(50, -5), "caught up in about 10 s");
  assert.equal(lagForecast(50, 3), "falling behind");
  assert.equal(lagForecast(50, 0), "steady");
});
