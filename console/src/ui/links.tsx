/** Links to objects, and badges of their state and features. */

import type { JSX } from "preact";

import { exchangeName } from "../format";
import { vhost as chosen, useShared } from "../state";
import { link } from "../urls";
import { Badge } from "./basics";

/** The vhost, if more than one is shown. */
function Where(props: { vhost: string }): JSX.Element | null {
  return useShared(chosen) === null && props.vhost !== "/" ? (
    <span class="sub">{props.vhost}</span>
  ) : null;
}

export function QueueLink(props: { vhost: string; name: string; bare?: boolean }): JSX.Element {
  return (
    <>
      <a href={link(["queues", props.vhost, props.name])}>{props.name || "(no name)"}</a>
      {!props.bare && <Where vhost={props.vhost} />}
    </>
  );
}

export function ExchangeLink(props: { vhost: string; name: string; bare?: boolean }): JSX.Element {
  return (
    <>
      <a href={link(["exchanges", props.vhost, props.name])}>{exchangeName(props.name)}</a>
      {!props.bare && <Where vhost={props.vhost} />}
    </>
  );
}

export function State(props: { state: string }): JSX.Element {
  const tone =
    props.state === "running"
      ? "good"
      : props.state === "flow"
        ? "warn"
        : props.state === "blocked" || props.state === "closing"
          ? "bad"
          : "plain";
  return <Badge tone={tone}>{props.state}</Badge>;
}

const SHORT: Record<string, string> = {
  "x-message-ttl": "TTL",
  "x-expires": "expires",
  "x-max-length": "max length",
  "x-max-length-bytes": "max bytes",
  "x-dead-letter-exchange": "DLX",
  "x-max-priority": "priorities",
  "x-single-active-consumer": "single active",
};

interface Featured {
  durable: boolean;
  auto_delete: boolean;
  exclusive: boolean;
  type: string;
  arguments: Record<string, unknown>;
  policy: string | null;
}

/** Whether `Features` shows anything. */
export function hasFeatures(queue: Featured): boolean {
  const unusual = queue.type !== "classic" || !queue.durable || queue.auto_delete;
  const named = Object.keys(SHORT).some((name) => name in queue.arguments);
  return unusual || queue.exclusive || named || queue.policy !== null;
}

/** Badges for the features of a queue. */
export function Features(props: { queue: Featured }): JSX.Element {
  const { queue } = props;
  return (
    <span class="badges">
      {queue.type !== "classic" && <Badge tone="info">{queue.type}</Badge>}
      {!queue.durable && <Badge title="lost on restart">transient</Badge>}
      {queue.auto_delete && <Badge title="deleted with its last consumer">auto-delete</Badge>}
      {queue.exclusive && <Badge title="belongs to one connection">exclusive</Badge>}
      {Object.entries(SHORT).map(([name, label]) =>
        name in queue.arguments ? (
          <Badge key={name} title={`${name} = ${JSON.stringify(queue.arguments[name])}`}>
            {label}
          </Badge>
        ) : null,
      )}
      {queue.policy && <Badge tone="info">policy {queue.policy}</Badge>}
    </span>
  );
}
