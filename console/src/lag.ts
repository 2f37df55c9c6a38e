/** How far a group is behind, and where that leads. Pure. */

import { duration } from "./format";
import type { Point } from "./series";

/** Messages per second by which the lag changes; null when it is not known yet. */
export function trendOf(points: readonly Point[]): number | null {
  const known = points.flatMap(({ at, value }) => (value === null ? [] : [{ at, value }]));
  const [first, last] = [known[0], known.at(-1)];
  if (!first || !last || last.at - first.at < 5000) return null;
  return (last.value - first.value) / ((last.at - first.at) / 1000);
}

/** What the trend means, in words. */
export function outlook(messages: number, trend: number | null): string {
  if (messages === 0) return "nothing to do";
  if (trend === null) return "watching…";
  if (trend > 0.05) return "falling behind";
  if (trend > -0.05) return "neither gaining nor falling behind";
  return `done in about ${duration(messages / -trend)}`;
}

/** The share of a lane that is done with. */
export function doneShare(first: number, position: number, end: number): number {
  const all = end - first;
  return all > 0 ? Math.min(1, Math.max(0, (position + 1 - first) / all)) : 1;
}
