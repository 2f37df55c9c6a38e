/** One queue: charts, messages, consumers, bindings, and what can be done with it. */

import type { JSX } from "preact";

import { del } from "../api";
import { bytes, compact, rate, whole } from "../format";
import { go, usePlace } from "../place";
import { usePoll } from "../poll";
import { link, url } from "../route";
import { lengthsOf, type Point, ratesOf } from "../series";
import { type Binding, type Queue, rateOf, samplesOf } from "../types";
import { Card, Facts, Figure, PageHead, Ready, Tabs, Values } from "../ui/basics";
import { BindForm, BindingRows } from "../ui/bindings";
import { Chart } from "../ui/chart";
import { confirmed } from "../ui/dialog";
import { Features, hasFeatures } from "../ui/links";
import { attempt } from "../ui/notices";
import { BindingPicture } from "../ui/picture";
import { PublishForm } from "../ui/publish";
import { Browser } from "./browser";
import { ConsumerRows } from "./consumers";
import { MoveForm } from "./move";

// Only what was noted: a queue that nobody looked at has no history, which is not one of zeros.
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
  const tab = usePlace().query.tab ?? "";
  const polled = usePoll<Queue>(url(path, tab === "" ? WINDOW : {}));
  const purge = async (): Promise<void> => {
    const sure = await confirmed({
      title: "Purge this queue?",
      text: `All messages that are ready, ${whole(polled.data?.messages_ready)} now, are gone for good. Those with consumers stay.`,
      action: "Purge",
      typed: props.name,
    });
    if (sure && (await attempt(() => del(url([...path, "contents"])), "The queue is empty."))) {
      polled.refresh();
    }
  };
  const remove = async (): Promise<void> => {
    const sure = await confirmed({
      title: "Delete this queue?",
      text: `With it go ${whole(polled.data?.messages)} messages and its bindings. Its ${whole(polled.data?.consumers)} consumers are cancelled.`,
      action: "Delete queue",
      typed: props.name,
    });
    if (sure && (await attempt(() => del(url(path)), "The queue is deleted."))) go(["queues"]);
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
      <Ready polled={polled}>
        {(queue) => (
          <>
            <QueueFigures queue={queue} />
            <Tabs
              current={tab}
              tabs={TABS.map(([id, label]) => ({ id, label, href: link(path, { tab: id }) }))}
            />
            {tab === "" && <QueueOverview queue={queue} />}
            {tab === "messages" && <Browser vhost={props.vhost} name={props.name} />}
            {tab === "bindings" && <QueueBindings vhost={props.vhost} name={props.name} />}
            {tab === "publish" && (
              <Card title="Publish to this queue, through the default exchange">
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
      </Ready>
    </>
  );
}

function QueueFigures(props: { queue: Queue }): JSX.Element {
  const { queue } = props;
  const stats = queue.message_stats;
  return (
    <div class="figures">
      <Figure
        label="Ready"
        value={whole(queue.messages_ready)}
        note={bytes(queue.message_bytes_ready)}
      />
      <Figure label="Unacked" value={whole(queue.messages_unacknowledged)} note="with consumers" />
      <Figure label="In" value={rate(rateOf(stats, "publish") ?? 0)} note="published" />
      <Figure label="Out" value={rate(rateOf(stats, "deliver_get") ?? 0)} note="delivered" />
      <Figure label="Acknowledged" value={rate(rateOf(stats, "ack") ?? 0)} note="done" />
      <Figure
        label="Consumers"
        value={whole(queue.consumers)}
        note={
          queue.consumers > 0
            ? `${whole((queue.consumer_capacity ?? 0) * 100)} % could take more`
            : "nobody takes"
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
        <Card title="Declared as">
          <Facts
            rows={[
              ["Vhost", queue.vhost],
              ["Type", queue.type],
              ["Kept", queue.durable ? "durable" : "transient"],
              ["Features", hasFeatures(queue) ? <Features queue={queue} /> : "none"],
              ["Policy", queue.policy ?? "none"],
              ["Idle since", queue.idle_since ?? "busy"],
            ]}
          />
          <h2 class="sub-title">Arguments</h2>
          <Values of={queue.arguments} />
          {queue.policy && (
            <>
              <h2 class="sub-title">From the policy</h2>
              <Values of={queue.effective_policy_definition ?? {}} />
            </>
          )}
        </Card>
        <Card title="What became of messages">
          <Facts
            rows={[
              [
                "Delivered again",
                whole(typeof stats?.redeliver === "number" ? stats.redeliver : 0),
              ],
              ["Expired", whole(counters.expired)],
              ["Dropped, full", whole(counters.dropped)],
              ["Dead-lettered", whole(counters.dead_lettered)],
              ["Returned", whole(counters.returned)],
              ["In memory", bytes(queue.memory)],
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
    <Ready polled={polled}>
      {(rows) => (
        <>
          <Card title="What leads here">
            <BindingPicture vhost={props.vhost} bindings={rows} focus={`queue:${props.name}`} />
          </Card>
          <Card title="Bindings" flush>
            <BindingRows bindings={rows} side="source" onChange={polled.refresh} empty="None" />
            <div class="pad">
              <BindForm vhost={props.vhost} toQueue={props.name} onDone={polled.refresh} />
            </div>
          </Card>
        </>
      )}
    </Ready>
  );
}
