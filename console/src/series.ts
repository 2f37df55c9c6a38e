/** Time series for charts, from the API's samples and from polled counters. */

export interface Sample {
  sample: number;
  timestamp: number;
}

export interface Point {
  at: number; // ms since 1970
  value: number | null;
}

/** Samples of a counter (newest first) -> rates per second, oldest first. */
export function ratesOf(samples: readonly Sample[]): Point[] {
  const points: Point[] = [];
  for (let index = samples.length - 2; index >= 0; index -= 1) {
    const [newer, older] = [samples[index], samples[index + 1]];
    const seconds = (newer.timestamp - older.timestamp) / 1000;
    // A counter that decreased belongs to a restarted broker.
    const extended = Math.max(0, newer.sample - older.sample);
    if (seconds > 0) points.push({ at: newer.timestamp, value: extended / seconds });
  }
  return points;
}

/** Samples of a length (newest first) -> points, oldest first. */
export function lengthsOf(samples: readonly Sample[]): Point[] {
  return [...samples].reverse().map((one) => ({ at: one.timestamp, value: one.sample }));
}

/** Columns for the chart: one list of times in seconds, one of values for each series. */
export function aligned(series: readonly (readonly Point[])[]): (number | null)[][] {
  const times = new Set<number>();
  for (const points of series) for (const point of points) times.add(point.at);
  const ordered = [...times].sort((a, b) => a - b);
  const columns = series.map((points) => {
    const byTime = new Map(points.map((point) => [point.at, point.value]));
    return ordered.map((at) => byTime.get(at) ?? null);
  });
  return [ordered.map((at) => at / 1000), ...columns];
}

// -- Prometheus text ------------------------------------------------------------------------------

export interface Buckets {
  bounds: number[];
  counts: number[]; // cumulative
}

/** The buckets of one histogram without other labels. */
export function bucketsOf(text: string, name: string): Buckets | null {
  const found: [number, number][] = [];
  const start = `${name}_bucket{`;
  for (const line of text.split("\n")) {
    if (!line.startsWith(start)) continue;
    const match = /le="([^"]+)"[^}]*\}\s+(\S+)/.exec(line);
    if (match) found.push([match[1] === "+Inf" ? Infinity : Number(match[1]), Number(match[2])]);
  }
  if (found.length === 0) return null;
  found.sort(([a], [b]) => a - b);
  return { bounds: found.map(([bound]) => bound), counts: found.map(([, count]) => count) };
}

/** The counts between two scrapes. */
export function between(before: Buckets, after: Buckets): Buckets {
  const same = before.counts.length === after.counts.length;
  const last = after.counts.length - 1;
  if (!same || after.counts[last] < before.counts[last]) return after;
  return { bounds: after.bounds, counts: after.counts.map((n, i) => n - before.counts[i]) };
}

/** A quantile, linear inside its bucket; null without samples. */
export function quantile(buckets: Buckets, share: number): number | null {
  const total = buckets.counts[buckets.counts.length - 1] ?? 0;
  if (total <= 0) return null;
  const wanted = share * total;
  const index = buckets.counts.findIndex((count) => count >= wanted);
  const upper = buckets.bounds[index];
  const lower = index > 0 ? buckets.bounds[index - 1] : 0;
  if (upper === Infinity) return lower;
  const below = index > 0 ? buckets.counts[index - 1] : 0;
  const inside = buckets.counts[index] - below;
  return inside > 0 ? lower + ((upper - lower) * (wanted - below)) / inside : upper;
}

/** Appends points and drops those older than `age` ms. */
export function appendRecent(
  points: readonly Point[],
  added: readonly Point[],
  age: number,
): Point[] {
  const newest = added.length > 0 ? added[added.length - 1].at : Date.now();
  const last = points.length > 0 ? points[points.length - 1].at : -Infinity;
  return [...points, ...added.filter((point) => point.at > last)].filter(
    (point) => point.at >= newest - age,
  );
}
