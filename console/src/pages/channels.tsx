/** Channels of connections. */

import type { JSX } from "preact";

import { rate, whole } from "../format";
import { usePoll } from "../poll";
import { type Channel, rateOf } from "../types";
import { Badge, Card, Empty, Facts, Loaded, PageHead, Rows } from "../ui/basics";
import { State } from "../ui/links";
import { type Column, List } from "../ui/list";
import { link, url } from "../urls";
import { ConsumerRows } from "./consumers";

const FIELDS =
  "name,number,vhost,user,state,confirm,transactional,consumer_count,prefetch_count," +
  "messages_unacknowledged,messages_unconfirmed,message_stats.publish_details,message_stats.deliver_get_details," +
  "message_stats.ack_details";

function Mode(props: { one: Channel }): JSX.Element {
  return (
    <span class="badges">
      {props.one.confirm && <Badge tone="info">confirms</Badge>}
      {props.one.transactional && <Badge tone="info">transactions</Badge>}
    </span>
  );
}

const COLUMNS: Column<Channel>[] = [
  {
    label: "Channel",
    sort: "name",
    cell: (one) => <a href={link(["channels", one.name])}>{one.name}</a>,
  },
  { label: "User", sort: "user", low: 2, cell: (one) => one.user },
  { label: "Mode", low: 1, cell: (one) => <Mode one={one} /> },
  { label: "State", sort: "state", low: 1, cell: (one) => <State state={one.state} /> },
  {
    label: "Consumers",
    sort: "consumer_count",
    num: true,
    low: 1,
    cell: (one) => whole(one.consumer_count),
  },
  {
    label: "Prefetch",
    sort: "prefetch_count",
    num: true,
    low: 2,
    cell: (one) => whole(one.prefetch_count),
  },
  {
    label: "Unacked",
    sort: "messages_unacknowledged",
    num: true,
    cell: (one) => whole(one.messages_unacknowledged),
  },
  {
    label: "Unconfirmed",
    sort: "messages_unconfirmed",
    num: true,
    low: 2,
    cell: (one) => whole(one.messages_unconfirmed),
  },
  {
    label: "Publish",
    sort: "message_stats.publish_details.rate",
    num: true,
    cell: (one) => rate(rateOf(one.message_stats, "publish")),
  },
  {
    label: "Deliver",
    sort: "message_stats.deliver_get_details.rate",
    num: true,
    low: 1,
    cell: (one) => rate(rateOf(one.message_stats, "deliver_get")),
  },
  {
    label: "Ack",
    sort: "message_stats.ack_details.rate",
    num: true,
    low: 2,
    cell: (one) => rate(rateOf(one.message_stats, "ack")),
  },
];

export function ChannelsPage(): JSX.Element {
  return (
    <>
      <PageHead title="Channels" />
      <List<Channel>
        label="Channels"
        parts={["channels"]}
        perVhost={(vhost) => ["vhosts", vhost, "channels"]}
        fields={FIELDS}
        id={(one) => one.name}
        columns={COLUMNS}
        empty={
          <Empty title="No open channels">
            Clients open them inside their <a href={link(["connections"])}>connections</a>.
          </Empty>
        }
      />
    </>
  );
}

export function ChannelRows(props: { rows: Channel[] }): JSX.Element {
  if (props.rows.length === 0) {
    return (
      <div class="pad">
        <Empty title="No open channels">The client has not opened any, or has closed them.</Empty>
      </div>
    );
  }
  return (
    <Rows
      label="Channels"
      head={[
        "Channel",
        ["Mode", "low"],
        ["Consumers", "num"],
        ["Unacked", "num"],
        ["Publish", "num"],
        ["Deliver", "num low"],
      ]}
      rows={props.rows}
      id={(one) => one.name}
      cells={(one) => [
        <a href={link(["channels", one.name])}>{one.number}</a>,
        <Mode one={one} />,
        whole(one.consumer_count),
        whole(one.messages_unacknowledged),
        rate(rateOf(one.message_stats, "publish")),
        rate(rateOf(one.message_stats, "deliver_get")),
      ]}
    />
  );
}

export function ChannelPage(props: { name: string }): JSX.Element {
  const polled = usePoll<Channel>(url(["channels", props.name]));
  return (
    <>
      <PageHead kind="Channel" title={props.name} />
      <Loaded polled={polled}>
        {(one) => (
          <>
            <Card title="Channel">
              <Facts
                rows={[
                  [
                    "Connection",
                    <a href={link(["connections", one.connection_details.name])}>
                      {one.connection_details.name}
                    </a>,
                  ],
                  ["User", one.user],
                  ["Vhost", one.vhost],
                  ["State", <State state={one.state} />],
                  ["Mode", one.confirm || one.transactional ? <Mode one={one} /> : "plain"],
                  ["Prefetch", one.prefetch_count ? whole(one.prefetch_count) : "unlimited"],
                  ["Unacked", whole(one.messages_unacknowledged)],
                  ["Unconfirmed", whole(one.messages_unconfirmed)],
                  ["Publish", rate(rateOf(one.message_stats, "publish"))],
                  ["Deliver", rate(rateOf(one.message_stats, "deliver_get"))],
                  ["Acknowledge", rate(rateOf(one.message_stats, "ack"))],
                ]}
              />
            </Card>
            <Card title="Consumers" flush>
              <ConsumerRows rows={one.consumer_details ?? []} queue />
            </Card>
          </>
        )}
      </Loaded>
    </>
  );
}
