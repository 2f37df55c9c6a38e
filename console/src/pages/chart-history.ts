/** History for charts: loaded once, then extended with each poll. */

import { useEffect, useState } from "preact/hooks";

import { get } from "../api";
import { repeat, usePoll } from "../poll";
import { appendRecent, lengthsOf, type Point, ratesOf } from "../series";
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

// -- the machine -----------------------------------------------------------------------------------

export interface NodeHistory {
  node: Node | undefined;
  memory: Point[];
  disk: Point[];
  median: Point[]; // confirm latency, seconds
  high: Point[];
}

const SERIES = ["mem_used", "disk_free", "confirm_p50_us", "confirm_p99_us"] as const;
const NODE_FIELDS = [
  "uptime,mem_limit,mem_alarm,disk_free_limit,disk_free_alarm,fd_used,fd_total,db_dir,os_pid",
  ...SERIES.flatMap((name) => [name, `${name}_details`]),
].join(",");

/** Memory, disk and confirm latency, `age` seconds back. */
export function useNodeHistory(age: number): NodeHistory {
  const step = stepOf(age);
  const window = { node_stats_age: age, node_stats_incr: step, samples: "known" };
  const { data } = usePoll<Node[]>(url(["nodes"], { columns: NODE_FIELDS, ...window }), EVERY);
  const node = data?.[0];
  const [memory, disk, median, high] = SERIES.map((name) =>
    lengthsOf(node?.[`${name}_details`]?.samples ?? []),
  );
  // No confirm between two samples: a gap, not a latency of zero.
  const seconds = (points: Point[]): Point[] =>
    points.map(({ at, value }) => ({ at, value: value ? value / 1e6 : null }));
  return { node, memory, disk, median: seconds(median), high: seconds(high) };
}
