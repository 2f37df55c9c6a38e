/** Topics: logs with lanes of priority that groups read at their own pace. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { del, put } from "../api";
import { ago, bytes, duration, moment, whole } from "../format";
import { adjust, go, usePlace } from "../place";
import { usePoll } from "../poll";
import { link, url } from "../route";
import { vhost } from "../state";
import type { Topic } from "../types";
import { Badge, Card, Empty, Facts, Figure, PageHead, Ready, Rows } from "../ui/basics";
import { confirmed, Dialog } from "../ui/dialog";
import { Field, Form } from "../ui/form";
import { List } from "../ui/list";
import { attempt } from "../ui/notices";
import { VhostField } from "../ui/vhost-field";
import { GroupRows } from "./groups";

function retentionOf(topic: Topic): string {
  const { retention } = topic;
  if (!retention) return "until it is deleted";
  const parts = [
    retention.ms ? duration(retention.ms / 1000) : "",
    retention.size ? bytes(retention.size) : "",
  ];
  return parts.filter(Boolean).join(" or ") || "until it is deleted";
}

export function TopicsPage(): JSX.Element {
  const { query } = usePlace();
  return (
    <>
      <PageHead title="Topics">
        <button type="button" class="primary" onClick={() => adjust({ new: "1" })}>
          New topic
        </button>
      </PageHead>
      <List<Topic>
        label="Topics"
        parts={["topics"]}
        fields="name,vhost,engine,queues,retention,messages,last_time,lanes"
        id={(one) => JSON.stringify([one.vhost, one.name])}
        empty={
          <Empty title="No topics yet">
            A topic keeps what is appended to it, and every group reads all of it. Make one here, or
            with <code>headrace topic create</code>.
          </Empty>
        }
        columns={[
          {
            label: "Topic",
            sort: "name",
            cell: (one) => (
              <>
                <a href={link(["topics", one.vhost, one.name])}>{one.name}</a>
                {one.vhost !== "/" && <span class="sub">{one.vhost}</span>}
              </>
            ),
          },
          { label: "Kept in", sort: "engine", low: 1, cell: (one) => <Badge>{one.engine}</Badge> },
          { label: "High", num: true, low: 1, cell: (one) => whole(one.lanes.high) },
          { label: "Middle", num: true, low: 1, cell: (one) => whole(one.lanes.middle) },
          { label: "Low", num: true, low: 1, cell: (one) => whole(one.lanes.low) },
          { label: "Messages", sort: "messages", num: true, cell: (one) => whole(one.messages) },
          { label: "Last one", sort: "last_time", cell: (one) => ago(one.last_time, Date.now()) },
          { label: "Kept for", low: 2, cell: retentionOf },
        ]}
      />
      {query.new && <NewTopic />}
    </>
  );
}

function NewTopic(): JSX.Element {
  const [where, setWhere] = useState(vhost.value ?? "/");
  const [name, setName] = useState("");
  const [queues, setQueues] = useState("1");
  const [hours, setHours] = useState("");
  const make = async (): Promise<void> => {
    const body = {
      queues: Number(queues),
      ...(hours ? { retention_ms: Math.round(Number(hours) * 3_600_000) } : {}),
    };
    const made = await attempt(
      () => put(url(["topics", where, name]), body),
      `Topic ${name} is there.`,
    );
    if (made) go(["topics", where, name]);
  };
  return (
    <Dialog title="New topic" onClose={() => adjust({ new: undefined })} wide>
      <Form action="Make topic" onSend={make}>
        <VhostField value={where} onValue={setWhere} />
        <Field label="Name" value={name} onValue={setName} required autofocus />
        <Field
          label="Queues per lane"
          type="number"
          value={queues}
          onValue={setQueues}
          hint="how many can be read side by side"
        />
        <Field
          label="Kept for, hours"
          type="number"
          value={hours}
          onValue={setHours}
          placeholder="until it is deleted"
        />
      </Form>
    </Dialog>
  );
}

export function TopicPage(props: { vhost: string; name: string }): JSX.Element {
  const path = ["topics", props.vhost, props.name];
  const polled = usePoll<Topic>(url(path));
  const remove = async (): Promise<void> => {
    const sure = await confirmed({
      title: "Delete this topic?",
      text: `With it go ${whole(polled.data?.messages)} messages and the positions of ${whole(polled.data?.groups?.length)} groups.`,
      action: "Delete topic",
      typed: props.name,
    });
    if (sure && (await attempt(() => del(url(path)), "The topic is deleted."))) go(["topics"]);
  };
  return (
    <>
      <PageHead kind="Topic" title={props.name}>
        <button type="button" class="danger" onClick={() => void remove()}>
          Delete…
        </button>
      </PageHead>
      <Ready polled={polled}>
        {(topic) => (
          <>
            <div class="figures">
              <Figure label="Messages" value={whole(topic.messages)} note="kept" />
              <Figure label="High" value={whole(topic.lanes.high)} note="read first" />
              <Figure label="Middle" value={whole(topic.lanes.middle)} note="the usual" />
              <Figure label="Low" value={whole(topic.lanes.low)} note="read last" />
              <Figure label="Groups" value={whole(topic.groups?.length)} note="read it" />
            </div>
            <Card title="Groups" flush>
              <GroupRows groups={topic.groups ?? []} />
            </Card>
            <Card title="Lanes" flush>
              <Lanes topic={topic} />
            </Card>
            <Card>
              <Facts
                rows={[
                  ["Vhost", topic.vhost],
                  ["Kept in", topic.engine],
                  ["Kept for", retentionOf(topic)],
                  ["Queues per lane", whole(topic.queues)],
                  ["Made", moment(topic.created_at)],
                ]}
              />
            </Card>
          </>
        )}
      </Ready>
    </>
  );
}

function Lanes(props: { topic: Topic }): JSX.Element {
  return (
    <Rows
      label="Lanes"
      head={[
        ["Lane", "word"],
        ["Part", "num"],
        ["First", "num low"],
        ["End", "num low"],
        ["Messages", "num"],
        ["Oldest", "low"],
        "Newest",
      ]}
      rows={props.topic.parts}
      id={(part) => `${part.lane} ${part.partition}`}
      cells={(part) => [
        part.lane,
        String(part.partition),
        whole(part.first),
        whole(part.end),
        whole(part.end - part.first),
        ago(part.first_time, Date.now()),
        ago(part.last_time, Date.now()),
      ]}
    />
  );
}
