import assert from "node:assert/strict";
import { test } from "node:test";

import { lagForecast, trendOf } from "../src/lag";
import { aligned, appendRecent, ratesOf } from "../src/series";

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
