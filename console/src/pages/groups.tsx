/** Consumer groups of topics: lag, members, offset reset. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { del, post } from "../api";
import { compact, duration, whole } from "../format";
import { lagForecast, trendOf } from "../lag";
import { navigate } from "../navigation";
import { usePoll } from "../poll";
import { appendRecent, type Point } from "../series";
import type { Group, Lag, Topic } from "../types";
import { Badge, Card, Empty, Failure, Loading, PageHead, Rows, Stat } from "../ui/basics";
import { Chart } from "../ui/chart";
import { confirmAction } from "../ui/dialog";
import { Field, Form, Select } from "../ui/form";
import { type Column, List } from "../ui/list";
import { attempt } from "../ui/notices";
import { link, url } from "../urls";

/** A consumer without a group has only a token. */
function GroupName(props: { group: Group }): JSX.Element {
  const { group } = props;
  if (group.queue) return <>{group.group}</>;
  return group.group ? (
    <a href={link(["groups", group.vhost, group.topic, group.group])}>{group.group}</a>
  ) : (
    <>
      {group.token} <Badge>no group</Badge>
    </>
  );
}

function LagBadge(props: { seconds: number; messages: number }): JSX.Element {
  if (props.messages === 0) return <Badge tone="good">up to date</Badge>;
  const tone = props.seconds > 300 ? "bad" : props.seconds > 30 ? "warn" : "plain";
  return <Badge tone={tone}>{duration(props.seconds)}</Badge>;
}

const COLUMNS: Column<Group>[] = [
  { label: "Group", sort: "name", cell: (one) => <GroupName group={one} /> },
  {
    label: "Topic",
    sort: "topic",
    cell: (one) =>
      one.queue ? (
        <>
          <a href={link(["queues", one.vhost, one.queue])}>{one.queue}</a> <Badge>queue</Badge>
        </>
      ) : (
        <a href={link(["topics", one.vhost, one.topic])}>{one.topic}</a>
      ),
  },
  { label: "Members", num: true, low: 1, cell: (one) => whole(one.members.length) },
  { label: "Lag", sort: "messages", num: true, cell: (one) => whole(one.messages) },
  {
    label: "Oldest unread",
    sort: "seconds",
    cell: (one) => <LagBadge seconds={one.seconds} messages={one.messages} />,
  },
  { label: "Claimed", sort: "claimed", num: true, low: 2, cell: (one) => whole(one.claimed) },
  { label: "Retrying", sort: "retrying", num: true, low: 1, cell: (one) => whole(one.retrying) },
  {
    label: "Dead",
    sort: "dead",
    num: true,
    low: 1,
    cell: (one) => (one.dead > 0 ? <Badge tone="bad">{whole(one.dead)}</Badge> : "0"),
  },
];

const NONE = (
  <Empty title="No groups yet">
    A group appears with its first read:{" "}
    <code>store.consumer("orders", token="…", group="g1")</code>.
  </Empty>
);

export function GroupsPage(): JSX.Element {
  return (
    <>
      <PageHead title="Groups" />
      <List<Group>
        label="Groups"
        parts={["groups"]}
        fields="name,group,token,topic,queue,vhost,members,messages,claimed,retrying,dead,seconds"
        id={(one) => JSON.stringify([one.vhost, one.topic, one.queue, one.group, one.token])}
        columns={COLUMNS}
        empty={NONE}
      />
    </>
  );
}

export function GroupRows(props: { groups: Group[] }): JSX.Element {
  if (props.groups.length === 0) return <div class="pad">{NONE}</div>;
  const columns = COLUMNS.filter((column) => column.label !== "Topic");
  return (
    <Rows
      label="Groups"
      head={columns.map((one): [string, string] => [
        one.label,
        `${one.num ? "num " : ""}${one.low ? "low" : ""}`,
      ])}
      rows={props.groups}
      id={(one) => JSON.stringify([one.group, one.token])}
      cells={(one) => columns.map((column) => column.cell(one))}
    />
  );
}

const AGE = 600_000;

/** Lag since the page was opened; the broker keeps no history of it. */
function useLag(group: Group | undefined): Point[] {
  const [points, setPoints] = useState<Point[]>([]);
  useEffect(() => {
    if (group)
      setPoints((old) => appendRecent(old, [{ at: Date.now(), value: group.messages }], AGE));
  }, [group]);
  return points;
}

export function GroupPage(props: { vhost: string; topic: string; name: string }): JSX.Element {
  const topicPath = ["topics", props.vhost, props.topic];
  const polled = usePoll<Topic>(url(topicPath));
  const group = polled.data?.groups?.find((one) => one.group === props.name);
  const points = useLag(group);
  const path = [...topicPath, "groups", props.name];
  const remove = async (): Promise<void> => {
    const sure = await confirmAction({
      title: "Delete this group?",
      text: "Its positions are deleted. If it reads again, it starts as a new group.",
      action: "Delete group",
      typed: props.name,
    });
    if (sure && (await attempt(() => del(url(path)), "Group deleted."))) navigate(topicPath);
  };
  return (
    <>
      <PageHead kind="Group" title={props.name}>
        <a href={link(topicPath)}>Topic {props.topic}</a>
        <button type="button" class="danger" onClick={() => void remove()}>
          Delete…
        </button>
      </PageHead>
      <Failure error={polled.error} />
      {!polled.data && !polled.error && <Loading />}
      {polled.data && !group && (
        <Card>
          <Empty title="No such group">
            <a href={link(topicPath)}>Show the topic</a>
          </Empty>
        </Card>
      )}
      {group && (
        <>
          <div class="figures">
            <Stat label="Lag" value={whole(group.messages)} note="messages" />
            <Stat
              label="Oldest unread"
              value={group.messages > 0 ? duration(group.seconds) : "–"}
              note={lagForecast(group.messages, trendOf(points))}
            />
            <Stat label="Claimed" value={whole(group.claimed)} note="being processed" />
            <Stat label="Retrying" value={whole(group.retrying)} note="scheduled" />
            <Stat label="Dead" value={whole(group.dead)} note="attempts exhausted" />
            <Stat label="Members" value={whole(group.members.length)} note="active" />
          </div>
          <Card>
            <Chart
              title="Lag in messages"
              format={compact}
              series={[{ label: "lag", color: "--c4", points, fill: true }]}
            />
          </Card>
          <div class="columns">
            <Card title="Lag by priority" flush>
              <LagRows rows={group.lanes} />
            </Card>
            <Card title="Members">
              {group.members.length > 0 ? (
                <ul class="bare">
                  {group.members.map((member) => (
                    <li key={member}>
                      <code>{member}</code>
                    </li>
                  ))}
                </ul>
              ) : (
                <Empty title="No active members" />
              )}
            </Card>
          </div>
          <Reset path={path} name={props.name} priorities={group.lanes} onDone={polled.refresh} />
        </>
      )}
    </>
  );
}

function LagRows(props: { rows: Lag[] }): JSX.Element {
  return (
    <Rows
      label="Lag by priority"
      plain
      head={[
        ["Priority", "word"],
        ["Committed", "num"],
        ["Last", "num"],
        ["Lag", "num"],
        ["Claimed", "num low"],
        ["Retrying", "num low"],
        ["Dead", "num low"],
        "Oldest",
      ]}
      rows={props.rows}
      id={(lag) => lag.lane}
      cells={(lag) => [
        lag.lane,
        whole(lag.position),
        whole(lag.end - 1), // `end` is the offset of the next message
        whole(lag.messages),
        whole(lag.claimed),
        whole(lag.retrying),
        whole(lag.dead),
        lag.seconds === null ? "–" : duration(lag.seconds),
      ]}
    />
  );
}

function Reset(props: {
  path: string[];
  name: string;
  priorities: Lag[];
  onDone: () => void;
}): JSX.Element {
  const [to, setTo] = useState("earliest");
  const [time, setTime] = useState("");
  const [positions, setPositions] = useState<Record<string, string>>({});
  const reset = async (): Promise<void> => {
    const body = bodyOf(to, time, positions);
    const sure = await confirmAction({
      title: "Reset the offsets of this group?",
      text: "Claims of its members become invalid. Moving back reads messages again; moving forward skips messages.",
      action: "Reset offsets",
      typed: props.name,
    });
    if (
      sure &&
      (await attempt(() => post(url([...props.path, "seek"]), body), "Group offsets reset."))
    ) {
      props.onDone();
    }
  };
  return (
    <Card title="Reset offsets">
      <Form action="Reset…" onSend={reset} danger>
        <Select
          label="To"
          value={to}
          onValue={setTo}
          options={[
            ["earliest", "earliest: first retained message"],
            ["latest", "latest: after the last message"],
            ["time", "time: messages stored at or after a time"],
            ["positions", "positions by priority"],
          ]}
        />
        {to === "time" && (
          <label class="field">
            <span>Stored at</span>
            <input
              type="datetime-local"
              step="1"
              required
              value={time}
              onInput={(event) => setTime(event.currentTarget.value)}
            />
          </label>
        )}
        {to === "positions" &&
          props.priorities.map((lag) => (
            <Field
              key={lag.lane}
              label={`Position, ${lag.lane}`}
              type="number"
              value={positions[lag.lane] ?? ""}
              onValue={(value) => setPositions({ ...positions, [lag.lane]: value })}
              placeholder={String(lag.position)}
              hint="offset of the last committed message"
            />
          ))}
      </Form>
    </Card>
  );
}

function bodyOf(to: string, time: string, positions: Record<string, string>): object {
  if (to === "time") return { time_ms: new Date(time).getTime() };
  if (to !== "positions") return { to };
  const given = Object.entries(positions).filter(([, value]) => value !== "");
  return {
    positions: Object.fromEntries(given.map(([priority, value]) => [priority, Number(value)])),
  };
}
