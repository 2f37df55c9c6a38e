/** One queue: charts, messages, consumers, bindings, actions. */

import type { JSX } from "preact";

import { del } from "../api";
import { bytes, compact, rate, whole } from "../format";
import { navigate, useAddress } from "../navigation";
import { usePoll } from "../poll";
import { lengthsOf, type Point, ratesOf } from "../series";
import { type Binding, type Queue, rateOf, samplesOf } from "../types";
import { Card, Facts, Loaded, PageHead, Stat, Tabs, Values } from "../ui/basics";
import { BindForm, BindingRows } from "../ui/bindings";
import { Chart } from "../ui/chart";
import { BindingDiagram } from "../ui/diagram";
import { confirmAction } from "../ui/dialog";
import { Features, hasFeatures } from "../ui/links";
import { attempt } from "../ui/notices";
import { PublishForm } from "../ui/publish";
import { link, url } from "../urls";
import { ConsumerRows } from "./consumers";
import { MessageBrowser } from "./message-browser";
import { MoveForm } from "./move";

// Recorded samples only: no history is not a history of zeros.
const WINDOW = {
  msg_rates_age: 300,
  msg_rates_incr: 5,
  lengths_age: 300,
  lengths_incr: 5,
  samples: "known",
};
const TABS: [string, string][] = [
  ["", "Overview"],
  ["messages", "Messages"],
  ["bindings", "Bindings"],
  ["publish", "Publish"],
  ["move", "Move"],
];

export function QueuePage(props: { vhost: string; name: string }): JSX.Element {
  const path = ["queues", props.vhost, props.name];
  const tab = useAddress().query.tab ?? "";
  const polled = usePoll<Queue>(url(path, tab === "" ? WINDOW : {}));
  const purge = async (): Promise<void> => {
    const sure = await confirmAction({
      title: "Purge this queue?",
      text: `All ready messages (${whole(polled.data?.messages_ready)}) are deleted. Unacknowledged messages are kept.`,
      action: "Purge",
      typed: props.name,
    });
    if (sure && (await attempt(() => del(url([...path, "contents"])), "Queue purged."))) {
      polled.refresh();
    }
  };
  const remove = async (): Promise<void> => {
    const sure = await confirmAction({
      title: "Delete this queue?",
      text: `Deletes ${whole(polled.data?.messages)} messages and all bindings, and cancels ${whole(polled.data?.consumers)} consumers.`,
      action: "Delete queue",
      typed: props.name,
    });
    if (sure && (await attempt(() => del(url(path)), "Queue deleted."))) navigate(["queues"]);
  };
  return (
    <>
      <PageHead kind="Queue" title={props.name}>
        <button type="button" class="danger" onClick={() => void purge()}>
          Purge…
        </button>
        <button type="button" class="danger" onClick={() => void remove()}>
          Delete…
        </button>
      </PageHead>
      <Loaded polled={polled}>
        {(queue) => (
          <>
            <QueueStats queue={queue} />
            <Tabs
              current={tab}
              tabs={TABS.map(([id, label]) => ({ id, label, href: link(path, { tab: id }) }))}
            />
            {tab === "" && <QueueOverview queue={queue} />}
            {tab === "messages" && (
              <MessageBrowser vhost={props.vhost} name={props.name} onDone={polled.refresh} />
            )}
            {tab === "bindings" && <QueueBindings vhost={props.vhost} name={props.name} />}
            {tab === "publish" && (
              <Card title="Publish to this queue through the default exchange">
                <PublishForm
                  vhost={props.vhost}
                  exchange=""
                  routingKey={props.name}
                  onDone={polled.refresh}
                />
              </Card>
            )}
            {tab === "move" && (
              <MoveForm
                vhost={props.vhost}
                name={props.name}
                ready={queue.messages_ready}
                onDone={polled.refresh}
              />
            )}
          </>
        )}
      </Loaded>
    </>
  );
}

function QueueStats(props: { queue: Queue }): JSX.Element {
  const { queue } = props;
  const stats = queue.message_stats;
  return (
    <div class="figures">
      <Stat
        label="Ready"
        value={whole(queue.messages_ready)}
        note={bytes(queue.message_bytes_ready)}
      />
      <Stat label="Unacked" value={whole(queue.messages_unacknowledged)} note="awaiting ack" />
      <Stat label="In" value={rate(rateOf(stats, "publish") ?? 0)} note="published" />
      <Stat label="Out" value={rate(rateOf(stats, "deliver_get") ?? 0)} note="delivered" />
      <Stat label="Acknowledged" value={rate(rateOf(stats, "ack") ?? 0)} note="by consumers" />
      <Stat
        label="Consumers"
        value={whole(queue.consumers)}
        note={
          queue.consumers > 0
            ? `${whole((queue.consumer_capacity ?? 0) * 100)} % capacity`
            : "none connected"
        }
      />
    </div>
  );
}

function QueueOverview(props: { queue: Queue }): JSX.Element {
  const { queue } = props;
  const stats = queue.message_stats;
  const length = (name: "messages_ready" | "messages_unacknowledged"): Point[] => {
    const points = lengthsOf(queue[`${name}_details`]?.samples ?? []);
    return points.length > 0 ? points : [{ at: Date.now(), value: queue[name] }];
  };
  const rates = (name: string): Point[] => {
    const points = ratesOf(samplesOf(stats, name));
    return points.length > 0 ? points : [{ at: Date.now(), value: rateOf(stats, name) ?? 0 }];
  };
  const counters = queue.counters ?? {};
  return (
    <>
      <div class="charts">
        <Card>
          <Chart
            title="Queued messages"
            format={compact}
            series={[
              { label: "ready", color: "--c4", points: length("messages_ready"), fill: true },
              { label: "unacked", color: "--c5", points: length("messages_unacknowledged") },
            ]}
          />
        </Card>
        <Card>
          <Chart
            title="Message rates"
            format={rate}
            series={[
              { label: "in", color: "--c1", points: rates("publish") },
              { label: "out", color: "--c2", points: rates("deliver_get") },
              { label: "ack", color: "--c3", points: rates("ack") },
            ]}
          />
        </Card>
      </div>
      <Card title="Consumers" flush>
        <ConsumerRows rows={queue.consumer_details ?? []} />
      </Card>
      <div class="columns">
        <Card title="Details">
          <Facts
            rows={[
              ["Vhost", queue.vhost],
              ["Type", queue.type],
              ["Durability", queue.durable ? "durable" : "transient"],
              ["Features", hasFeatures(queue) ? <Features queue={queue} /> : "none"],
              ["Policy", queue.policy ?? "none"],
              ["Idle since", queue.idle_since ?? "active"],
              ["Memory", bytes(queue.memory)],
            ]}
          />
          <h2 class="sub-title">Arguments</h2>
          <Values of={queue.arguments} />
          {queue.policy && (
            <>
              <h2 class="sub-title">Policy definition</h2>
              <Values of={queue.effective_policy_definition ?? {}} />
            </>
          )}
        </Card>
        <Card title="Message counters">
          <Facts
            rows={[
              ["Redelivered", whole(typeof stats?.redeliver === "number" ? stats.redeliver : 0)],
              ["Expired", whole(counters.expired)],
              ["Dropped (full)", whole(counters.dropped)],
              ["Dead-lettered", whole(counters.dead_lettered)],
              ["Requeued", whole(counters.returned)],
            ]}
          />
        </Card>
      </div>
    </>
  );
}

function QueueBindings(props: { vhost: string; name: string }): JSX.Element {
  const polled = usePoll<Binding[]>(url(["queues", props.vhost, props.name, "bindings"]), 10_000);
  return (
    <Loaded polled={polled}>
      {(rows) => (
        <>
          <Card title="Binding diagram">
            <BindingDiagram vhost={props.vhost} bindings={rows} focus={`queue:${props.name}`} />
          </Card>
          <Card title="Bindings" flush>
            <BindingRows
              bindings={rows}
              side="source"
              onChange={polled.refresh}
              empty="No bindings"
            />
            <div class="pad">
              <BindForm vhost={props.vhost} toQueue={props.name} onDone={polled.refresh} />
            </div>
          </Card>
        </>
      )}
    </Loaded>
  );
}
