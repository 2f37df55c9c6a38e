/** Consumers of a queue or channel. */

import type { JSX } from "preact";

import { ago, whole } from "../format";
import type { Consumer } from "../types";
import { Badge, Empty, Rows } from "../ui/basics";
import { QueueLink } from "../ui/links";
import { link } from "../urls";

const ACTIVITY: Record<string, string> = {
  up: "active",
  single_active: "single active",
  waiting: "waiting",
};

/** Which program holds the messages: its name or host, its client library, its channel. */
function Holder(props: { details: Consumer["channel_details"] }): JSX.Element {
  const { name = "", user_provided_name, peer_host, client, user } = props.details;
  return (
    <>
      <a href={link(["channels", name])} title={name}>
        {user_provided_name || name}
      </a>
      <span class="sub">
        {[`${user ?? ""}@${peer_host ?? ""}`, client].filter(Boolean).join(", ")}
      </span>
    </>
  );
}

export function ConsumerRows(props: { rows: Consumer[]; queue?: boolean }): JSX.Element {
  if (props.rows.length === 0) {
    return (
      <div class="pad">
        <Empty title="No consumers">
          The Messages tab of a queue shows its messages without consuming them.
        </Empty>
      </div>
    );
  }
  return (
    <Rows
      label="Consumers"
      head={[
        props.queue ? "Consumer" : ["Consumer", "low"],
        props.queue ? "Queue" : "Program",
        ["Connected", "low"],
        ["Acks", "low"],
        ["Prefetch", "num"],
        ["Unacked", "num"],
        ["State", "low"],
      ]}
      rows={props.rows}
      id={(one) => `${one.channel_details.name ?? ""} ${one.consumer_tag}`}
      cells={(one) => [
        one.consumer_tag,
        props.queue ? (
          <QueueLink vhost={one.queue.vhost} name={one.queue.name} />
        ) : (
          <Holder details={one.channel_details} />
        ),
        ago(one.channel_details.connected_at, Date.now()),
        one.ack_required ? "manual" : "automatic",
        one.prefetch_count ? whole(one.prefetch_count) : "unlimited",
        whole(one.unacknowledged),
        <span class="badges">
          <Badge tone={one.activity_status === "waiting" ? "plain" : "good"}>
            {ACTIVITY[one.activity_status] ?? one.activity_status}
          </Badge>
          {one.exclusive && <Badge>exclusive</Badge>}
        </span>,
      ]}
    />
  );
}
