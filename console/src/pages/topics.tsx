/** Topics: list, details, creation and deletion. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { del, put } from "../api";
import { ago, bytes, duration, moment, whole } from "../format";
import { navigate, updateQuery, useAddress } from "../navigation";
import { usePoll } from "../poll";
import { vhost } from "../state";
import type { Topic } from "../types";
import { Badge, Card, Empty, Facts, Loaded, PageHead, Rows, Stat } from "../ui/basics";
import { confirmAction, Dialog } from "../ui/dialog";
import { Field, Form } from "../ui/form";
import { List } from "../ui/list";
import { attempt } from "../ui/notices";
import { VhostField } from "../ui/vhost-field";
import { link, url } from "../urls";
import { GroupRows } from "./groups";

function retentionOf(topic: Topic): string {
  const { retention } = topic;
  if (!retention) return "unlimited";
  const parts = [
    retention.ms ? duration(retention.ms / 1000) : "",
    retention.size ? bytes(retention.size) : "",
  ];
  return parts.filter(Boolean).join(" or ") || "unlimited";
}

export function TopicsPage(): JSX.Element {
  const { query } = useAddress();
  return (
    <>
      <PageHead title="Topics">
        <button type="button" class="primary" onClick={() => updateQuery({ new: "1" })}>
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
            A topic retains its messages, and every group reads all of them. Create one here or with{" "}
            <code>headrace topic create</code>.
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
          { label: "Engine", sort: "engine", low: 1, cell: (one) => <Badge>{one.engine}</Badge> },
          { label: "High", num: true, low: 1, cell: (one) => whole(one.lanes.high) },
          { label: "Middle", num: true, low: 1, cell: (one) => whole(one.lanes.middle) },
          { label: "Low", num: true, low: 1, cell: (one) => whole(one.lanes.low) },
          { label: "Messages", sort: "messages", num: true, cell: (one) => whole(one.messages) },
          {
            label: "Last message",
            sort: "last_time",
            cell: (one) => ago(one.last_time, Date.now()),
          },
          { label: "Retention", low: 2, cell: retentionOf },
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
  const create = async (): Promise<void> => {
    const body = {
      queues: Number(queues),
      ...(hours ? { retention_ms: Math.round(Number(hours) * 3_600_000) } : {}),
    };
    const created = await attempt(
      () => put(url(["topics", where, name]), body),
      `Topic ${name} created.`,
    );
    if (created) navigate(["topics", where, name]);
  };
  return (
    <Dialog title="New topic" onClose={() => updateQuery({ new: undefined })} wide>
      <Form action="Create topic" onSend={create}>
        <VhostField value={where} onValue={setWhere} />
        <Field label="Name" value={name} onValue={setName} required autofocus />
        <Field
          label="Partitions per priority"
          type="number"
          value={queues}
          onValue={setQueues}
          hint="partitions are read in parallel"
        />
        <Field
          label="Retention in hours"
          type="number"
          value={hours}
          onValue={setHours}
          placeholder="unlimited"
        />
      </Form>
    </Dialog>
  );
}

export function TopicPage(props: { vhost: string; name: string }): JSX.Element {
  const path = ["topics", props.vhost, props.name];
  const polled = usePoll<Topic>(url(path));
  const remove = async (): Promise<void> => {
    const sure = await confirmAction({
      title: "Delete this topic?",
      text: `Deletes ${whole(polled.data?.messages)} messages and the positions of ${whole(polled.data?.groups?.length)} groups.`,
      action: "Delete topic",
      typed: props.name,
    });
    if (sure && (await attempt(() => del(url(path)), "Topic deleted."))) navigate(["topics"]);
  };
  return (
    <>
      <PageHead kind="Topic" title={props.name}>
        <button type="button" class="danger" onClick={() => void remove()}>
          Delete…
        </button>
      </PageHead>
      <Loaded polled={polled}>
        {(topic) => (
          <>
            <div class="figures">
              <Stat label="Messages" value={whole(topic.messages)} note="retained" />
              <Stat label="High" value={whole(topic.lanes.high)} note="read first" />
              <Stat label="Middle" value={whole(topic.lanes.middle)} note="default" />
              <Stat label="Low" value={whole(topic.lanes.low)} note="read last" />
              <Stat label="Groups" value={whole(topic.groups?.length)} note="reading" />
            </div>
            <Card title="Groups" flush>
              <GroupRows groups={topic.groups ?? []} />
            </Card>
            <Card title="Partitions" flush>
              <PriorityRows topic={topic} />
            </Card>
            <Card>
              <Facts
                rows={[
                  ["Vhost", topic.vhost],
                  ["Engine", topic.engine],
                  ["Retention", retentionOf(topic)],
                  ["Partitions per priority", whole(topic.queues)],
                  ["Created", moment(topic.created_at)],
                ]}
              />
            </Card>
          </>
        )}
      </Loaded>
    </>
  );
}

function PriorityRows(props: { topic: Topic }): JSX.Element {
  return (
    <Rows
      label="Partitions"
      head={[
        ["Priority", "word"],
        ["Partition", "num"],
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
