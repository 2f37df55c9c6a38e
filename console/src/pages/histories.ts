/** Histories for charts: once as a whole, then only what is new. */

import { useEffect, useState } from "preact/hooks";

import { get, getText } from "../api";
import { repeat } from "../poll";
import { url } from "../route";
import {
  type Buckets,
  between,
  bucketsOf,
  kept,
  lengthsOf,
  type Point,
  quantile,
  ratesOf,
} from "../series";
import { type Node, type Overview, rateOf, samplesOf } from "../types";

const RATES = ["publish", "deliver_get", "ack"];
const LENGTHS = ["messages_ready", "messages_unacknowledged"];
const EVERY = 5000;
const GAP = 60_000; // longer than this without news: the history is asked for again

type Histories = Record<string, Point[]>;

interface Totals {
  totals: Overview | undefined;
  series: Histories;
}

function columns(): string {
  const names = [
    "object_totals",
    ...RATES.flatMap((name) => [`message_stats.${name}`, `message_stats.${name}_details`]),
    ...LENGTHS.flatMap((name) => [`queue_totals.${name}`, `queue_totals.${name}_details`]),
  ];
  return names.join(",");
}

function stepOf(age: number): number {
  return Math.max(5, Math.round(age / 120 / 5) * 5);
}

/** The rates and lengths of the whole broker, `age` seconds back. */
export function useTotals(age: number): Totals {
  const [state, setState] = useState<Totals>({ totals: undefined, series: {} });
  useEffect(() => {
    let series: Histories | null = null;
    let last = 0;
    const ask = async (signal: AbortSignal): Promise<boolean> => {
      const known = Date.now() - last > GAP ? null : series;
      const step = stepOf(age);
      const window = known
        ? {}
        : { msg_rates_age: age, msg_rates_incr: step, lengths_age: age, lengths_incr: step };
      try {
        const told = await get<Overview>(
          url(["overview"], { columns: columns(), ...window }),
          signal,
        );
        series = known ? grown(known, told, age) : historyOf(told);
        last = Date.now();
        if (!signal.aborted) setState({ totals: told, series });
        return true;
      } catch {
        return signal.aborted;
      }
    };
    const repeated = repeat(ask, EVERY);
    return () => repeated.stop();
  }, [age]);
  return state;
}

function historyOf(told: Overview): Histories {
  const found: Histories = {};
  for (const name of RATES) found[name] = ratesOf(samplesOf(told.message_stats, name));
  for (const name of LENGTHS) found[name] = lengthsOf(samplesOf(told.queue_totals, name));
  return found;
}

function grown(series: Histories, told: Overview, age: number): Histories {
  const at = Date.now();
  const found: Histories = {};
  for (const name of RATES) {
    const value = rateOf(told.message_stats, name) ?? 0;
    found[name] = kept(series[name] ?? [], [{ at, value }], age * 1000);
  }
  for (const name of LENGTHS) {
    const value = told.queue_totals?.[name];
    const point = { at, value: typeof value === "number" ? value : null };
    found[name] = kept(series[name] ?? [], [point], age * 1000);
  }
  return found;
}

// -- what the broker keeps no history of ----------------------------------------------------------

const HOUR = 3_600_000;
// Kept while the page is open, whichever part of it is looked at.
const memory = {
  used: [] as Point[],
  free: [] as Point[],
  middle: [] as Point[],
  high: [] as Point[],
  buckets: null as Buckets | null,
};

function recent(points: readonly Point[], age: number): Point[] {
  const since = Date.now() - age * 1000;
  return points.filter((point) => point.at >= since);
}

export interface Numbers {
  node: Node | undefined;
  memory: Point[];
  disk: Point[];
}

const NODE_FIELDS =
  "uptime,mem_used,mem_limit,mem_alarm,disk_free,disk_free_limit,disk_free_alarm,fd_used,fd_total," +
  "db_dir,os_pid";

/** Memory and disk, from the moment the page was opened. */
export function useNumbers(age: number): Numbers {
  const [node, setNode] = useState<Node>();
  useEffect(() => {
    const ask = async (signal: AbortSignal): Promise<boolean> => {
      try {
        const [told] = await get<Node[]>(url(["nodes"], { columns: NODE_FIELDS }), signal);
        if (!told) return true;
        const at = Date.now();
        memory.used = kept(memory.used, [{ at, value: told.mem_used }], HOUR);
        memory.free = kept(memory.free, [{ at, value: told.disk_free }], HOUR);
        if (!signal.aborted) setNode(told);
        return true;
      } catch {
        return signal.aborted;
      }
    };
    const repeated = repeat(ask, EVERY);
    return () => repeated.stop();
  }, []);
  return { node, memory: recent(memory.used, age), disk: recent(memory.free, age) };
}

/** Quantiles of the time until a confirm, between one look at /metrics and the next. */
export function useLatency(age: number): { middle: Point[]; high: Point[] } {
  const [, redraw] = useState(0);
  useEffect(() => {
    const ask = async (signal: AbortSignal): Promise<boolean> => {
      try {
        const text = await getText("/metrics", signal);
        noteLatency(bucketsOf(text, "headrace_confirm_latency_seconds"), Date.now());
        if (!signal.aborted) redraw((count) => count + 1);
        return true;
      } catch {
        return signal.aborted;
      }
    };
    const repeated = repeat(ask, 2 * EVERY);
    return () => repeated.stop();
  }, []);
  return { middle: recent(memory.middle, age), high: recent(memory.high, age) };
}

function noteLatency(buckets: Buckets | null, at: number): void {
  if (!buckets) return;
  // The first look tells of everything since the broker was started.
  const seen = memory.buckets ? between(memory.buckets, buckets) : buckets;
  memory.buckets = buckets;
  memory.middle = kept(memory.middle, [{ at, value: quantile(seen, 0.5) }], HOUR);
  memory.high = kept(memory.high, [{ at, value: quantile(seen, 0.99) }], HOUR);
}
