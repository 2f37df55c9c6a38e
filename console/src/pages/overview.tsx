/** State of the broker. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { bytes, compact, duration, latency, plural, rate, whole } from "../format";
import { usePoll } from "../poll";
import { may } from "../state";
import { countOf, type Node, type Overview, rateOf } from "../types";
import { Badge, Bar, Card, Empty, Facts, Loaded, PageHead, Rows, Stat } from "../ui/basics";
import { Chart } from "../ui/chart";
import { link, url } from "../urls";
import { useNodeHistory, useTrafficHistory } from "./chart-history";

const SPANS: [string, number][] = [
  ["10 min", 600],
  ["1 h", 3600],
];
const FIELDS = "product_version,rabbitmq_version,python_version,cluster_name,node,listeners,share";

export function OverviewPage(): JSX.Element {
  const [age, setAge] = useState(600);
  const about = usePoll<Overview>(url(["overview"], { columns: FIELDS }), 60_000);
  return (
    <>
      <PageHead title="Overview">
        <fieldset class="segments" aria-label="Time range">
          {SPANS.map(([label, seconds]) => (
            <button
              key={label}
              type="button"
              aria-pressed={age === seconds}
              onClick={() => setAge(seconds)}
            >
              {label}
            </button>
          ))}
        </fieldset>
      </PageHead>
      <Traffic age={age} />
      {may("monitoring") && <Machine age={age} />}
      {about.data?.share && <SharedBroker />}
      <Loaded polled={about}>{(data) => <About data={data} />}</Loaded>
    </>
  );
}

function SharedBroker(): JSX.Element | null {
  const { data } = usePoll<Overview>(url(["overview"], { columns: "share" }), 2000);
  const share = data?.share;
  if (!share) return null;
  const taken = share.last_takeover;
  return (
    <div class="columns">
      <Card title="Shared broker">
        <Facts
          rows={[
            ["Shard", share.shard],
            ["Active node", share.node],
            ["Epoch", whole(share.epoch)],
            ["Last commit", `${whole(share.commit)}, ${duration(share.seconds_since_commit)} ago`],
            ["Last takeover", taken ? `${taken.began} UTC: ${taken.reason}` : "–"],
          ]}
        />
        {!share.has_lease && <Badge tone="bad">no lease: deliveries are paused</Badge>}
        {Object.values(share.alarms).map((text) => (
          <Badge key={text} tone="bad">
            alarm: {text}
          </Badge>
        ))}
      </Card>
      <Card title="Nodes" flush>
        <Rows
          label="Nodes"
          plain
          head={["Node", "State", "Address", ["Commits behind", "num"]]}
          rows={share.nodes}
          id={(one) => one.node}
          cells={(one) => [one.node, one.state, one.address, whole(one.commits_behind)]}
        />
      </Card>
    </div>
  );
}

function Traffic(props: { age: number }): JSX.Element {
  const { totals, series } = useTrafficHistory(props.age);
  const stats = totals?.message_stats;
  const lengths = totals?.queue_totals;
  const objects = totals?.object_totals ?? {};
  return (
    <>
      <div class="figures">
        <Stat
          label="Published"
          value={rate(rateOf(stats, "publish"))}
          note={`${compact(countOf(stats, "publish"))} total`}
        />
        <Stat
          label="Delivered"
          value={rate(rateOf(stats, "deliver_get"))}
          note={`${compact(countOf(stats, "deliver_get"))} total`}
        />
        <Stat
          label="Ready"
          value={whole(countOf(lengths, "messages_ready"))}
          note="in all queues"
          href={link(["queues"], { sort: "messages_ready", desc: "1" })}
        />
        <Stat
          label="Unacked"
          value={whole(countOf(lengths, "messages_unacknowledged"))}
          note="awaiting ack"
          href={link(["queues"], { sort: "messages_unacknowledged", desc: "1" })}
        />
        <Stat
          label="Queues"
          value={whole(objects.queues)}
          href={link(["queues"])}
          note={plural(objects.exchanges ?? 0, "exchange")}
        />
        <Stat
          label="Connections"
          value={whole(objects.connections)}
          href={link(["connections"])}
          note={plural(objects.channels ?? 0, "channel")}
        />
        <Stat
          label="Consumers"
          value={whole(objects.consumers)}
          href={link(["queues"], { sort: "consumers", desc: "1" })}
          note="on all queues"
        />
      </div>
      {objects.queues === 0 && (
        <Card>
          <Empty title="No queues yet">
            Connect a client to the AMQP port below, or{" "}
            <a href={link(["queues"], { new: "1" })}>create a queue</a>.
          </Empty>
        </Card>
      )}
      <div class="charts">
        <Card>
          <Chart
            title="Message rates"
            format={rate}
            series={[
              { label: "published", color: "--c1", points: series.publish ?? [] },
              { label: "delivered", color: "--c2", points: series.deliver_get ?? [] },
              { label: "acknowledged", color: "--c3", points: series.ack ?? [] },
            ]}
          />
        </Card>
        <Card>
          <Chart
            title="Queued messages"
            format={compact}
            series={[
              { label: "ready", color: "--c4", points: series.messages_ready ?? [], fill: true },
              { label: "unacked", color: "--c5", points: series.messages_unacknowledged ?? [] },
            ]}
          />
        </Card>
      </div>
    </>
  );
}

function Machine(props: { age: number }): JSX.Element {
  const polled = useNodeHistory(props.age);
  const node = polled.node;
  return (
    <>
      <div class="charts three">
        <Card>
          <Chart
            title="Confirm latency"
            format={latency}
            nothing="No persistent messages were confirmed in this time."
            series={[
              { label: "median", color: "--c1", points: polled.median },
              { label: "p99", color: "--c5", points: polled.high },
            ]}
          />
        </Card>
        <Card>
          <Chart
            title="Memory"
            format={bytes}
            binary
            series={[{ label: "used", color: "--c2", points: polled.memory, fill: true }]}
          />
          {node && <Limit node={node} kind="memory" />}
        </Card>
        <Card>
          <Chart
            title="Disk"
            format={bytes}
            binary
            series={[{ label: "free", color: "--c3", points: polled.disk, fill: true }]}
          />
          {node && <Limit node={node} kind="disk" />}
        </Card>
      </div>
      {node && <NodeFacts node={node} />}
    </>
  );
}

function Limit(props: { node: Node; kind: "memory" | "disk" }): JSX.Element {
  const { node } = props;
  if (props.kind === "memory") {
    return (
      <div class="limit">
        <Bar value={node.mem_used} limit={node.mem_limit} label="Memory used, of the limit" />
        <span class="muted">publishers are blocked at {bytes(node.mem_limit)}</span>
        {node.mem_alarm && <Badge tone="bad">alarm: publishers blocked</Badge>}
      </div>
    );
  }
  return (
    <div class="limit">
      <Bar
        value={node.disk_free_limit}
        limit={Math.max(node.disk_free, 1)}
        label="Free disk space, relative to the limit"
      />
      <span class="muted">publishers are blocked below {bytes(node.disk_free_limit)}</span>
      {node.disk_free_alarm && <Badge tone="bad">alarm: publishers blocked</Badge>}
    </div>
  );
}

function NodeFacts(props: { node: Node }): JSX.Element {
  const { node } = props;
  return (
    <Card title="Process">
      <Facts
        rows={[
          ["Uptime", duration(node.uptime / 1000)],
          ["PID", node.os_pid ?? "–"],
          ["Open files", `${whole(node.fd_used)} of ${whole(node.fd_total)}`],
          ["Data directory", <code>{node.db_dir}</code>],
        ]}
      />
    </Card>
  );
}

function About(props: { data: Overview }): JSX.Element {
  const { data } = props;
  return (
    <div class="columns">
      <Card title="Broker">
        <Facts
          rows={[
            ["Version", `Headrace ${data.product_version}`],
            ["Compatible with", `RabbitMQ ${data.rabbitmq_version}`],
            ["Python", data.python_version ?? "–"],
            ["Cluster name", data.cluster_name || "–"],
            ["Node", data.node],
          ]}
        />
      </Card>
      {data.listeners && (
        <Card title="Ports" flush>
          <Rows
            label="Ports"
            plain
            head={["Protocol", "Address", ["Port", "num"]]}
            rows={data.listeners}
            id={(one) => `${one.protocol}:${one.port}`}
            cells={(one) => [one.protocol, one.ip_address, String(one.port)]}
          />
        </Card>
      )}
    </div>
  );
}
