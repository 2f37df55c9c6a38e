/** Who takes messages from a queue. */

import type { JSX } from "preact";

import { whole } from "../format";
import { link } from "../route";
import type { Consumer } from "../types";
import { Badge, Empty, Rows } from "../ui/basics";
import { QueueLink } from "../ui/links";

const ACTIVITY: Record<string, string> = {
  up: "active",
  single_active: "active, the only one",
  waiting: "waiting for its turn",
};

export function ConsumerRows(props: { rows: Consumer[]; queue?: boolean }): JSX.Element {
  if (props.rows.length === 0) {
    return (
      <div class="pad">
        <Empty title="Nobody consumes">
          Start a consumer, or <b>browse</b> the queue to look at its messages without taking them.
        </Empty>
      </div>
    );
  }
  return (
    <Rows
      label="Consumers"
      head={[
        "Consumer",
        props.queue ? "Queue" : "Channel",
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
          <a href={link(["channels", one.channel_details.name ?? ""])}>
            {one.channel_details.name}
          </a>
        ),
        one.ack_required ? "by the consumer" : "none",
        one.prefetch_count ? whole(one.prefetch_count) : "no limit",
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
