/** History for charts: loaded once, then extended with each poll. */

import { useEffect, useState } from "preact/hooks";

import { get, getText } from "../api";
import { repeat } from "../poll";
import {
  appendRecent,
  type Buckets,
  between,
  bucketsOf,
  lengthsOf,
  type Point,
  quantile,
  ratesOf,
} from "../series";
import { type Node, type Overview, rateOf, samplesOf } from "../types";
import { url } from "../urls";

const RATES = ["publish", "deliver_get", "ack"];
const LENGTHS = ["messages_ready", "messages_unacknowledged"];
const EVERY = 5000;
const GAP = 60_000; // longer than this without a response: the history is loaded again

type Histories = Record<string, Point[]>;

interface TrafficHistory {
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

/** Rates and queue lengths of the broker, `age` seconds back. */
export function useTrafficHistory(age: number): TrafficHistory {
  const [state, setState] = useState<TrafficHistory>({ totals: undefined, series: {} });
  useEffect(() => {
    let series: Histories | null = null;
    let last = 0;
    const poll = async (signal: AbortSignal): Promise<boolean> => {
      const known = Date.now() - last > GAP ? null : series;
      const step = stepOf(age);
      const window = known
        ? {}
        : { msg_rates_age: age, msg_rates_incr: step, lengths_age: age, lengths_incr: step };
      try {
        const response = await get<Overview>(
          url(["overview"], { columns: columns(), ...window }),
          signal,
        );
        series = known ? extended(known, response, age) : historyOf(response);
        last = Date.now();
        if (!signal.aborted) setState({ totals: response, series });
        return true;
      } catch {
        return signal.aborted;
      }
    };
    const repeated = repeat(poll, EVERY);
    return () => repeated.stop();
  }, [age]);
  return state;
}

function historyOf(response: Overview): Histories {
  const found: Histories = {};
  for (const name of RATES) found[name] = ratesOf(samplesOf(response.message_stats, name));
  for (const name of LENGTHS) found[name] = lengthsOf(samplesOf(response.queue_totals, name));
  return found;
}

function extended(series: Histories, response: Overview, age: number): Histories {
  const at = Date.now();
  const found: Histories = {};
  for (const name of RATES) {
    const value = rateOf(response.message_stats, name) ?? 0;
    found[name] = appendRecent(series[name] ?? [], [{ at, value }], age * 1000);
  }
  for (const name of LENGTHS) {
    const value = response.queue_totals?.[name];
    const point = { at, value: typeof value === "number" ? value : null };
    found[name] = appendRecent(series[name] ?? [], [point], age * 1000);
  }
  return found;
}

// -- values without a history in the broker ----------------------------------------------------------

const HOUR = 3_600_000;
// Kept while the page is open.
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

export interface NodeHistory {
  node: Node | undefined;
  memory: Point[];
  disk: Point[];
}

const NODE_FIELDS =
  "uptime,mem_used,mem_limit,mem_alarm,disk_free,disk_free_limit,disk_free_alarm,fd_used,fd_total," +
  "db_dir,os_pid";

/** Memory and disk since the page was opened. */
export function useNodeHistory(age: number): NodeHistory {
  const [node, setNode] = useState<Node>();
  useEffect(() => {
    const poll = async (signal: AbortSignal): Promise<boolean> => {
      try {
        const [response] = await get<Node[]>(url(["nodes"], { columns: NODE_FIELDS }), signal);
        if (!response) return true;
        const at = Date.now();
        memory.used = appendRecent(memory.used, [{ at, value: response.mem_used }], HOUR);
        memory.free = appendRecent(memory.free, [{ at, value: response.disk_free }], HOUR);
        if (!signal.aborted) setNode(response);
        return true;
      } catch {
        return signal.aborted;
      }
    };
    const repeated = repeat(poll, EVERY);
    return () => repeated.stop();
  }, []);
  return { node, memory: recent(memory.used, age), disk: recent(memory.free, age) };
}

/** Quantiles of the confirm latency between two scrapes of /metrics. */
export function useLatency(age: number): { middle: Point[]; high: Point[] } {
  const [, redraw] = useState(0);
  useEffect(() => {
    const poll = async (signal: AbortSignal): Promise<boolean> => {
      try {
        const text = await getText("/metrics", signal);
        recordLatency(bucketsOf(text, "headrace_confirm_latency_seconds"), Date.now());
        if (!signal.aborted) redraw((count) => count + 1);
        return true;
      } catch {
        return signal.aborted;
      }
    };
    const repeated = repeat(poll, 2 * EVERY);
    return () => repeated.stop();
  }, []);
  return { middle: recent(memory.middle, age), high: recent(memory.high, age) };
}

function recordLatency(buckets: Buckets | null, at: number): void {
  if (!buckets) return;
  // The first scrape covers everything since the start of the broker.
  const seen = memory.buckets ? between(memory.buckets, buckets) : buckets;
  memory.buckets = buckets;
  memory.middle = appendRecent(memory.middle, [{ at, value: quantile(seen, 0.5) }], HOUR);
  memory.high = appendRecent(memory.high, [{ at, value: quantile(seen, 0.99) }], HOUR);
}
