/** Groups: who reads a topic, how far behind they are, and setting them back. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { del, post } from "../api";
import { compact, duration, whole } from "../format";
import { outlook, trendOf } from "../lag";
import { go } from "../place";
import { usePoll } from "../poll";
import { link, url } from "../route";
import { kept, type Point } from "../series";
import type { Group, Lag, Topic } from "../types";
import { Badge, Card, Empty, Failure, Figure, Loading, PageHead, Rows } from "../ui/basics";
import { Chart } from "../ui/chart";
import { confirmed } from "../ui/dialog";
import { Choice, Field, Form } from "../ui/form";
import { type Column, List } from "../ui/list";
import { attempt } from "../ui/notices";

/** A consumer on its own has a token and no group. */
function Name(props: { group: Group }): JSX.Element {
  const { group } = props;
  if (group.queue) return <>{group.group}</>;
  return group.group ? (
    <a href={link(["groups", group.vhost, group.topic, group.group])}>{group.group}</a>
  ) : (
    <>
      {group.token} <Badge>alone</Badge>
    </>
  );
}

function Behind(props: { seconds: number; messages: number }): JSX.Element {
  if (props.messages === 0) return <Badge tone="good">up to date</Badge>;
  const tone = props.seconds > 300 ? "bad" : props.seconds > 30 ? "warn" : "plain";
  return <Badge tone={tone}>{duration(props.seconds)}</Badge>;
}

const COLUMNS: Column<Group>[] = [
  { label: "Group", sort: "name", cell: (one) => <Name group={one} /> },
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
  { label: "Behind", sort: "messages", num: true, cell: (one) => whole(one.messages) },
  {
    label: "Oldest",
    sort: "seconds",
    cell: (one) => <Behind seconds={one.seconds} messages={one.messages} />,
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
  <Empty title="Nobody reads yet">
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

/** The lag as the page saw it; the broker keeps no history of it. */
function useLag(group: Group | undefined): Point[] {
  const [points, setPoints] = useState<Point[]>([]);
  useEffect(() => {
    if (group) setPoints((old) => kept(old, [{ at: Date.now(), value: group.messages }], AGE));
  }, [group]);
  return points;
}

export function GroupPage(props: { vhost: string; topic: string; name: string }): JSX.Element {
  const topicPath = ["topics", props.vhost, props.topic];
  const polled = usePoll<Topic>(url(topicPath));
  const group = polled.data?.groups?.find((one) => one.group === props.name);
  const points = useLag(group);
  const path = [...topicPath, "groups", props.name];
  const forget = async (): Promise<void> => {
    const sure = await confirmed({
      title: "Forget this group?",
      text: "Its positions are gone. Should it read again, it begins as a new group.",
      action: "Forget group",
      typed: props.name,
    });
    if (sure && (await attempt(() => del(url(path)), "It is forgotten."))) go(topicPath);
  };
  return (
    <>
      <PageHead kind="Group" title={props.name}>
        <a href={link(topicPath)}>Topic {props.topic}</a>
        <button type="button" class="danger" onClick={() => void forget()}>
          Forget…
        </button>
      </PageHead>
      <Failure error={polled.error} />
      {!polled.data && !polled.error && <Loading />}
      {polled.data && !group && (
        <Card>
          <Empty title="There is no such group">
            <a href={link(topicPath)}>Groups of the topic</a>
          </Empty>
        </Card>
      )}
      {group && (
        <>
          <div class="figures">
            <Figure label="Behind" value={whole(group.messages)} note="messages" />
            <Figure
              label="Oldest"
              value={group.messages > 0 ? duration(group.seconds) : "–"}
              note={outlook(group.messages, trendOf(points))}
            />
            <Figure label="Claimed" value={whole(group.claimed)} note="being worked on" />
            <Figure label="Retrying" value={whole(group.retrying)} note="later again" />
            <Figure label="Dead" value={whole(group.dead)} note="given up" />
            <Figure
              label="Members"
              value={whole(group.members.length)}
              note="hold claims or read"
            />
          </div>
          <Card>
            <Chart
              title="Lag in messages"
              format={compact}
              series={[{ label: "behind", color: "--c4", points, fill: true }]}
            />
          </Card>
          <div class="columns">
            <Card title="Lanes" flush>
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
                <Empty title="Nobody reads for this group now" />
              )}
            </Card>
          </div>
          <Reset path={path} name={props.name} lanes={group.lanes} onDone={polled.refresh} />
        </>
      )}
    </>
  );
}

function LagRows(props: { rows: Lag[] }): JSX.Element {
  return (
    <Rows
      label="Lag by lane"
      head={[
        ["Lane", "word"],
        ["Done up to", "num"],
        ["Last", "num"],
        ["Behind", "num"],
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
        whole(lag.end - 1), // the API's end is where the next message will be
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
  lanes: Lag[];
  onDone: () => void;
}): JSX.Element {
  const [to, setTo] = useState("earliest");
  const [time, setTime] = useState("");
  const [positions, setPositions] = useState<Record<string, string>>({});
  const reset = async (): Promise<void> => {
    const body = bodyOf(to, time, positions);
    const sure = await confirmed({
      title: "Set this group to another position?",
      text: "What its members have claimed becomes void. Going back means that messages are read again; going forward, that some are never read.",
      action: "Reset group",
      typed: props.name,
    });
    if (
      sure &&
      (await attempt(() => post(url([...props.path, "seek"]), body), "The group is set."))
    ) {
      props.onDone();
    }
  };
  return (
    <Card title="Set to another position">
      <Form action="Reset…" onSend={reset} danger>
        <Choice
          label="To"
          value={to}
          onValue={setTo}
          options={[
            ["earliest", "the first message that is kept"],
            ["latest", "behind the last message"],
            ["time", "what was stored at a time or later"],
            ["positions", "positions by lane"],
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
          props.lanes.map((lag) => (
            <Field
              key={lag.lane}
              label={`Position, ${lag.lane}`}
              type="number"
              value={positions[lag.lane] ?? ""}
              onValue={(value) => setPositions({ ...positions, [lag.lane]: value })}
              placeholder={String(lag.position)}
              hint="the last id that is done with"
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
  return { positions: Object.fromEntries(given.map(([lane, value]) => [lane, Number(value)])) };
}
