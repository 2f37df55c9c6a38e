/** Trend of a group's lag. Pure. */

import { duration } from "./format";
import type { Point } from "./series";

/** Messages per second by which the lag changes; null when it is not known yet. */
export function trendOf(points: readonly Point[]): number | null {
  const known = points.flatMap(({ at, value }) => (value === null ? [] : [{ at, value }]));
  const [first, last] = [known[0], known.at(-1)];
  if (!first || !last || last.at - first.at < 5000) return null;
  return (last.value - first.value) / ((last.at - first.at) / 1000);
}

/** The trend as text. */
export function lagForecast(messages: number, trend: number | null): string {
  if (messages === 0) return "caught up";
  if (trend === null) return "measuring…";
  if (trend > 0.05) return "falling behind";
  if (trend > -0.05) return "steady";
  return `caught up in about ${duration(messages / -trend)}`;
}
