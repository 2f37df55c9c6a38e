/** Responses of the API, as far as the page uses them. */

import type { Sample } from "./series";

export type Json = Record<string, unknown>;

export interface Details {
  rate: number;
  samples?: Sample[];
}

export type Stats = Record<string, number | Details>;

export interface Page<T> {
  items: T[];
  page: number;
  page_count: number;
  page_size: number;
  filtered_count: number;
  total_count: number;
}

export interface Overview {
  product_version: string;
  rabbitmq_version: string;
  python_version?: string;
  cluster_name: string;
  node: string;
  message_stats?: Stats;
  queue_totals?: Stats;
  object_totals?: Record<string, number>;
  listeners?: { protocol: string; ip_address: string; port: number }[];
  exchange_types?: { name: string }[];
  share?: Share | null;
}

/** A shared broker: this node has the shard, others stand by. */
export interface Share {
  shard: string;
  node: string;
  epoch: number;
  commit: number;
  seconds_since_commit: number;
  has_lease: boolean;
  nodes: { node: string; state: string; address: string; commits_behind: number }[];
  last_takeover: { epoch: number; node: string; reason: string; began: string } | null;
  alarms: Record<string, string>;
}

export interface Node {
  uptime: number;
  mem_used: number;
  mem_limit: number;
  mem_alarm: boolean;
  disk_free: number;
  disk_free_limit: number;
  disk_free_alarm: boolean;
  fd_used: number;
  fd_total: number;
  db_dir?: string;
  os_pid?: string;
  mem_used_details?: Details;
  disk_free_details?: Details;
  confirm_p50_us_details?: Details;
  confirm_p99_us_details?: Details;
}

export interface Queue {
  name: string;
  vhost: string;
  type: string;
  durable: boolean;
  auto_delete: boolean;
  exclusive: boolean;
  arguments: Json;
  policy: string | null;
  effective_policy_definition?: Json;
  messages: number;
  messages_ready: number;
  messages_unacknowledged: number;
  messages_details?: Details;
  messages_ready_details?: Details;
  messages_unacknowledged_details?: Details;
  message_bytes: number;
  message_bytes_ready?: number;
  memory: number;
  consumers: number;
  consumer_capacity?: number;
  idle_since?: string;
  message_stats?: Stats;
  consumer_details?: Consumer[];
  counters?: Record<string, number>;
}

export interface Consumer {
  consumer_tag: string;
  ack_required: boolean;
  activity_status: string;
  exclusive: boolean;
  prefetch_count: number;
  unacknowledged?: number;
  channel_details: {
    name?: string;
    connection_name?: string;
    user?: string;
    peer_host?: string;
    user_provided_name?: string | null;
    client?: string;
    connected_at?: number;
  };
  queue: { name: string; vhost: string };
}

export interface Exchange {
  name: string;
  vhost: string;
  type: string;
  durable: boolean;
  auto_delete: boolean;
  internal: boolean;
  arguments: Json;
  policy?: string | null;
  message_stats?: Stats;
}

export interface Binding {
  source: string;
  vhost: string;
  destination: string;
  destination_type: "queue" | "exchange";
  routing_key: string;
  arguments: Json;
  properties_key: string;
}

export interface Connection {
  name: string;
  user_provided_name?: string;
  vhost: string;
  user: string;
  state: string;
  channels: number;
  protocol: string;
  ssl: boolean;
  ssl_protocol?: string | null;
  ssl_cipher?: string | null;
  auth_mechanism?: string;
  peer_host: string;
  peer_port: number;
  connected_at: number;
  timeout?: number;
  frame_max?: number;
  channel_max?: number;
  client_properties?: Json;
  publishes_to?: { exchange: string; routing_key: string }[];
  recv_oct: number;
  send_oct: number;
  send_pend?: number;
  recv_oct_details?: Details;
  send_oct_details?: Details;
}

export interface Channel {
  name: string;
  number: number;
  vhost: string;
  user: string;
  state: string;
  confirm: boolean;
  transactional: boolean;
  consumer_count: number;
  prefetch_count: number;
  messages_unacknowledged: number;
  messages_unconfirmed: number;
  connection_details: { name: string };
  message_stats?: Stats;
  consumer_details?: Consumer[];
}

export interface Message {
  offset: number;
  exchange: string;
  routing_key: string;
  redelivered: boolean;
  deliveries: number;
  stored_at: number | null;
  payload_bytes: number;
  properties: Json | [];
  payload: string;
  payload_encoding: "string" | "base64";
}

export interface Browsed {
  items: Message[];
  next_offset: number | null;
  messages_ready: number;
  messages_unacknowledged: number;
}

export interface DeadGroup {
  vhost: string;
  queue: string;
  died_in: string;
  reason: string;
  exchange: string;
  routing_keys: string[];
  count: number;
  first_offset: number | null;
  oldest: number | null;
  newest: number | null;
}

export interface Vhost {
  name: string;
  description: string;
  tags: string[];
  messages: number;
  messages_ready: number;
  messages_unacknowledged: number;
  message_stats?: Stats;
}

export interface User {
  name: string;
  tags: string[];
  hashing_algorithm: string;
  limits: Record<string, number>;
}

export interface Permission {
  user: string;
  vhost: string;
  configure: string;
  write: string;
  read: string;
}

export interface TopicPermission {
  user: string;
  vhost: string;
  exchange: string;
  write: string;
  read: string;
}

export interface Policy {
  vhost: string;
  name: string;
  pattern: string;
  "apply-to": string;
  definition: Json;
  priority: number;
}

export interface Partition {
  lane: string; // its priority
  partition: number;
  first: number;
  end: number;
  first_time: number | null;
  last_time: number | null;
}

export interface Topic {
  name: string;
  vhost: string;
  engine: string;
  queues: number;
  retention: { ms: number | null; size: number | null } | null;
  created_at: number;
  messages: number;
  last_time: number | null;
  lanes: Record<string, number>;
  parts: Partition[];
  groups?: Group[];
}

export interface Lag {
  lane: string;
  position: number;
  end: number;
  messages: number;
  claimed: number;
  retrying: number;
  dead: number;
  oldest_time: number | null;
  seconds: number | null;
}

export interface Group {
  name: string;
  group: string;
  token: string;
  topic: string;
  /** Set instead of a topic when Spark reads a queue. */
  queue?: string;
  vhost: string;
  members: string[];
  messages: number;
  claimed: number;
  retrying: number;
  dead: number;
  seconds: number;
  lanes: Lag[];
}

export interface Pipeline {
  name: string;
  vhost: string;
  state: string | null;
  file: string | null;
  master: string | null;
  host: string | null;
  pid: number | null;
  started_at: string | null;
  updated_at: string | null;
  silent_ms: number;
  bad_records: number | null;
  last_bad:
    | {
        source: string;
        partition: number;
        offset: number;
        reason: string;
        body: string;
        found_at: string;
      }[]
    | null;
  /** Of each report: time, rows read and processed per second, lag, batch time in ms. */
  history: [number, number, number, number, number][];
  error: string | null;
  queries:
    | {
        sink: string;
        batch: number;
        rows: number;
        rows_per_second: number;
        batch_ms: number;
        lag: number;
        late_rows: number;
      }[]
    | null;
}

/** A saved report in a list: titles only. */
export interface ReportRow {
  name: string;
  vhost: string;
  from: string;
  to: string;
  window: string;
  made_at: number; // ms since 1970
  tables: string[];
  charts: string[];
}

export interface SavedReport extends Omit<ReportRow, "tables" | "charts"> {
  notes: string[];
  tables: { title: string; note?: string; columns: string[]; rows: unknown[][] }[];
  charts: { title: string; unit?: string; lines: Record<string, [string, number][]> }[];
}

/** The rate of a counter; undefined if it was never counted. */
export function rateOf(stats: Stats | undefined, name: string): number | undefined {
  const details = stats?.[`${name}_details`];
  return typeof details === "object" ? details.rate : undefined;
}

export function countOf(stats: Stats | undefined, name: string): number {
  const value = stats?.[name];
  return typeof value === "number" ? value : 0;
}

export function samplesOf(stats: Stats | undefined, name: string): Sample[] {
  const details = stats?.[`${name}_details`];
  return typeof details === "object" ? (details.samples ?? []) : [];
}
