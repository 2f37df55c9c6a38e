/** Reports: top queues, exchanges, groups and dead letters. */

import type { JSX } from "preact";

import { compact, duration, exchangeName, rate, whole } from "../format";
import { usePoll } from "../poll";
import { has, useShared, vhost } from "../state";
import {
  countOf,
  type DeadGroup,
  type Exchange,
  type Group,
  type Page,
  type Queue,
  rateOf,
} from "../types";
import { type BarRow, Bars } from "../ui/bars";
import { Card, Empty, Loaded, PageHead } from "../ui/basics";
import { link, url } from "../urls";
import { Reason, redriveLink } from "./deadletters";
import { SavedReports } from "./report";

const TOP = 10;

interface Report {
  title: string;
  sort: string;
  fields: string;
  value: (queue: Queue) => number;
  format: (value: number) => string;
  nothing: string;
}

const REPORTS: Report[] = [
  {
    title: "Throughput: deliveries per second",
    sort: "message_stats.deliver_get_details.rate",
    fields: "message_stats.deliver_get_details",
    value: (queue) => rateOf(queue.message_stats, "deliver_get") ?? 0,
    format: rate,
    nothing: "No deliveries.",
  },
  {
    title: "Backlog: ready messages",
    sort: "messages_ready",
    fields: "messages_ready",
    value: (queue) => queue.messages_ready,
    format: whole,
    nothing: "All queues are empty.",
  },
  {
    title: "Retries: redeliveries",
    sort: "message_stats.redeliver",
    fields: "message_stats.redeliver",
    value: (queue) => countOf(queue.message_stats, "redeliver"),
    format: compact,
    nothing: "No redeliveries.",
  },
  {
    title: "Volume: messages published",
    sort: "message_stats.publish",
    fields: "message_stats.publish",
    value: (queue) => countOf(queue.message_stats, "publish"),
    format: compact,
    nothing: "No messages published.",
  },
];

export function ReportsPage(): JSX.Element {
  return (
    <>
      <PageHead title="Reports" />
      <div class="columns">
        {REPORTS.map((report) => (
          <QueueReport key={report.title} report={report} />
        ))}
        {has("/api/deadletters") && <DeadReport />}
        {has("/api/groups") && <LagReport />}
        <ExchangeReport />
      </div>
      {has("/api/reports") && <SavedReports />}
    </>
  );
}

function QueueReport(props: { report: Report }): JSX.Element {
  const chosen = useShared(vhost);
  const { report } = props;
  const polled = usePoll<Page<Queue>>(
    url(chosen === null ? ["queues"] : ["queues", chosen], {
      columns: `name,vhost,${report.fields}`,
      sort: report.sort,
      sort_reverse: "true",
      page: 1,
      page_size: TOP,
    }),
    15_000,
  );
  return (
    <Card title={report.title}>
      <Loaded polled={polled}>
        {(data) => {
          const rows: BarRow[] = data.items
            .map((queue) => ({
              label: queue.name,
              note: queue.vhost === "/" ? "" : queue.vhost,
              href: link(["queues", queue.vhost, queue.name]),
              value: report.value(queue),
            }))
            .filter((row) => row.value > 0);
          return rows.length > 0 ? (
            <Bars rows={rows} format={report.format} />
          ) : (
            <Empty title={report.nothing} />
          );
        }}
      </Loaded>
    </Card>
  );
}

/** Groups with the largest lag. */
function LagReport(): JSX.Element {
  const chosen = useShared(vhost);
  const polled = usePoll<Page<Group>>(
    url(chosen === null ? ["groups"] : ["groups", chosen], {
      columns: "group,token,topic,queue,vhost,messages,seconds,retrying,dead",
      sort: "messages",
      sort_reverse: "true",
      page: 1,
      page_size: TOP,
    }),
    15_000,
  );
  return (
    <Card title="Lag: unread messages by group">
      <Loaded polled={polled}>
        {(data) => {
          const rows = data.items
            .filter((one) => one.messages > 0)
            .map((one) => ({
              label: one.group || one.token,
              note: `${one.queue || one.topic}, oldest ${duration(one.seconds)}, ${whole(one.retrying)} retrying, ${whole(one.dead)} dead`,
              href: one.queue
                ? link(["queues", one.vhost, one.queue])
                : one.group
                  ? link(["groups", one.vhost, one.topic, one.group])
                  : link(["topics", one.vhost, one.topic]),
              value: one.messages,
            }));
          return rows.length > 0 ? (
            <Bars rows={rows} format={whole} />
          ) : (
            <Empty title="No group is lagging." />
          );
        }}
      </Loaded>
    </Card>
  );
}

/** Exchanges by published messages. */
function ExchangeReport(): JSX.Element {
  const chosen = useShared(vhost);
  const polled = usePoll<Page<Exchange>>(
    url(chosen === null ? ["exchanges"] : ["exchanges", chosen], {
      columns: "name,vhost,message_stats.publish_in",
      sort: "message_stats.publish_in",
      sort_reverse: "true",
      page: 1,
      page_size: TOP,
    }),
    15_000,
  );
  return (
    <Card title="Exchanges: messages published">
      <Loaded polled={polled}>
        {(data) => {
          const rows = data.items
            .map((one) => ({
              label: exchangeName(one.name),
              note: one.vhost === "/" ? "" : one.vhost,
              href: link(["exchanges", one.vhost, one.name]),
              value: countOf(one.message_stats, "publish_in"),
            }))
            .filter((row) => row.value > 0);
          return rows.length > 0 ? (
            <Bars rows={rows} format={compact} />
          ) : (
            <Empty title="No messages published." />
          );
        }}
      </Loaded>
    </Card>
  );
}

function DeadReport(): JSX.Element {
  const chosen = useShared(vhost);
  const path = chosen === null ? ["deadletters"] : ["deadletters", chosen];
  const polled = usePoll<{ groups: DeadGroup[] }>(url(path), 60_000);
  return (
    <Card title="Dead letters by cause">
      <Loaded polled={polled}>
        {(data) =>
          data.groups.length > 0 ? (
            <Bars
              format={whole}
              rows={data.groups.slice(0, TOP).map((one) => ({
                label: one.died_in,
                note: <Reason reason={one.reason} />,
                href: redriveLink(one),
                value: one.count,
              }))}
            />
          ) : (
            <Empty title="No dead letters." />
          )
        }
      </Loaded>
    </Card>
  );
}
