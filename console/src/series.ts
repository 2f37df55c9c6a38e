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
