/** Redrive of dead letters: one message first, then the rest. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { post } from "../api";
import { duration, plural, whole } from "../format";
import { useAddress } from "../navigation";
import { usePoll } from "../poll";
import type { Browsed, DeadGroup, Json, Message, Queue } from "../types";
import { Card, Empty, Loaded, PageHead } from "../ui/basics";
import { confirmAction } from "../ui/dialog";
import { Checkbox, Field, Form, Select, TextArea } from "../ui/form";
import { headersOf, MessageBody, propertiesOf } from "../ui/message";
import { attempt } from "../ui/notices";
import { useNames } from "../ui/vhost-field";
import { exchangePart, link, url } from "../urls";
import { Reason, redriveLink } from "./deadletters";
import { type Moved, notifyMoved } from "./move";

const MOST = 10_000; // messages in one request

const pause = (ms: number): Promise<void> =>
  new Promise((done) => setTimeout(done, Math.max(0, ms)));

interface Destination {
  kind: string; // origin, queue or exchange
  target: string;
  key: string;
  dropHistory: boolean;
}

interface Canary {
  result: Moved;
  queue: string | null; // destination queue, if known
  destination: Destination;
}

function destinationBody(destination: Destination): Json {
  if (destination.kind === "origin") return { origin: true };
  if (destination.kind === "queue") return { queue: destination.target };
  return { exchange: exchangePart(destination.target), routing_key: destination.key || undefined };
}

function describe(destination: Destination): string {
  return destination.kind === "origin"
    ? "to their original queues"
    : `to ${destination.kind} ${destination.target}`;
}

/** The selected cause, from the address; without one, all messages of the queue. */
function useCause(): { cause: Json | undefined; offset: number } {
  const { query } = useAddress();
  if (query.reason === undefined) return { cause: undefined, offset: 0 };
  const cause = {
    died_in: query.died_in ?? "",
    reason: query.reason,
    exchange: query.exchange ?? "",
  };
  return { cause, offset: Number(query.offset ?? 0) || 0 };
}

export function RedrivePage(props: { vhost: string; name: string }): JSX.Element {
  const path = ["queues", props.vhost, props.name];
  const { cause, offset } = useCause();
  const groups = usePoll<{ groups: DeadGroup[] }>(url(["deadletters", props.vhost]), 0);
  const [canary, setCanary] = useState<Canary | null>(null);
  const own = groups.data?.groups.filter((one) => one.queue === props.name) ?? [];
  const group = cause && own.find((one) => matchesCause(one, cause));
  // The broker knows best where the first message of the group is.
  const start = group?.first_offset ?? offset;
  const head = usePoll<Browsed>(
    url([...path, "browse"], { offset: start, count: 1, truncate: 1 << 20 }),
    0,
  );
  const refresh = (): void => {
    head.refresh();
    groups.refresh();
  };
  return (
    <>
      <PageHead kind="Redrive" title={props.name}>
        <a href={link(path, { tab: "messages" })}>Browse this queue</a>
      </PageHead>
      {own.length > 0 && (
        <Causes groups={own} vhost={props.vhost} name={props.name} cause={cause} />
      )}
      {canary && (
        <Outcome
          vhost={props.vhost}
          name={props.name}
          cause={cause}
          group={group}
          canary={canary}
          onDone={refresh}
          onAgain={() => {
            setCanary(null);
            refresh();
          }}
        />
      )}
      {!canary && (
        <Loaded polled={head}>
          {(data) =>
            data.items[0] && (!cause || !groups.data || group) ? (
              <FirstMessage
                key={data.items[0].offset}
                vhost={props.vhost}
                name={props.name}
                cause={cause}
                message={data.items[0]}
                onSent={(sent) => {
                  setCanary(sent);
                  refresh();
                }}
                onChanged={refresh}
              />
            ) : (
              <Card>
                <Empty title={cause ? "No messages left with this cause" : "The queue is empty"}>
                  <a href={link(["deadletters"])}>All dead letters</a>
                </Empty>
              </Card>
            )
          }
        </Loaded>
      )}
    </>
  );
}

function matchesCause(group: DeadGroup, cause: Json): boolean {
  return (
    group.died_in === cause.died_in &&
    group.reason === cause.reason &&
    group.exchange === cause.exchange
  );
}

function Causes(props: {
  groups: DeadGroup[];
  vhost: string;
  name: string;
  cause: Json | undefined;
}): JSX.Element {
  return (
    <Card title="Causes">
      <ul class="bare causes">
        {props.groups.map((one) => {
          const chosen = props.cause !== undefined && matchesCause(one, props.cause);
          return (
            <li key={JSON.stringify([one.died_in, one.reason, one.exchange])}>
              <b>{whole(one.count)}</b> from {one.died_in || "(no name)"}{" "}
              <Reason reason={one.reason} />{" "}
              {chosen ? <b>selected</b> : <a href={redriveLink(one)}>select these</a>}
            </li>
          );
        })}
        {props.cause === undefined ? (
          <li>
            <b>All messages of the queue are selected</b>, from the head.
          </li>
        ) : (
          <li>
            <a href={link(["deadletters", props.vhost, props.name])}>
              Select all messages of the queue
            </a>
          </li>
        )}
      </ul>
    </Card>
  );
}

function FirstMessage(props: {
  vhost: string;
  name: string;
  cause: Json | undefined;
  message: Message;
  onSent: (canary: Canary) => void;
  onChanged: () => void;
}): JSX.Element {
  const { message } = props;
  const origin = headersOf(message)["x-first-death-queue"];
  const [destination, setDestination] = useState<Destination>({
    kind: typeof origin === "string" ? "origin" : "queue",
    target: "",
    key: "",
    dropHistory: true,
  });
  const [edited, setEdited] = useState(false);
  const [payload, setPayload] = useState(message.payload);
  const [properties, setProperties] = useState(JSON.stringify(propertiesOf(message), null, 2));
  const names = useNames(destination.kind === "exchange" ? "exchanges" : "queues", props.vhost);
  const change = (part: Partial<Destination>): void => setDestination({ ...destination, ...part });
  const send = (): Promise<unknown> =>
    attempt(async () => {
      const edit = edited
        ? {
            payload,
            payload_encoding: message.payload_encoding,
            properties: JSON.parse(properties) as Json,
          }
        : undefined;
      const body = {
        destination: destinationBody(destination),
        count: 1,
        first_offset: message.offset,
        edit,
        drop_history: destination.dropHistory,
        cause: props.cause,
      };
      const result = await post<Moved>(url(["queues", props.vhost, props.name, "move"]), body);
      if (result.moved === 1) {
        const queue =
          destination.kind === "origin"
            ? String(origin)
            : destination.kind === "queue"
              ? destination.target
              : null;
        props.onSent({ result, queue, destination });
      } else {
        notifyMoved(result);
        props.onChanged();
      }
    });
  return (
    <Card title={`First message, #${message.offset}`}>
      {!edited && <MessageBody message={message} inside />}
      <Form
        action="Send first message"
        onSend={send}
        extra={
          <button type="button" onClick={() => setEdited(!edited)}>
            {edited ? "Discard changes" : "Edit message"}
          </button>
        }
      >
        {edited && (
          <>
            <TextArea label="Payload" value={payload} onValue={setPayload} rows={8} />
            <TextArea
              label="Properties, as JSON"
              value={properties}
              onValue={setProperties}
              rows={8}
            />
          </>
        )}
        <Select
          label="Destination"
          value={destination.kind}
          onValue={(kind) => change({ kind })}
          options={[
            ["origin", `original queue${typeof origin === "string" ? `: ${origin}` : ""}`],
            ["queue", "another queue"],
            ["exchange", "an exchange"],
          ]}
        />
        {destination.kind !== "origin" && (
          <Field
            label={destination.kind === "queue" ? "Queue" : "Exchange"}
            value={destination.target}
            onValue={(target) => change({ target })}
            suggestions={names.filter((name) => name !== props.name)}
            required={destination.kind === "queue"}
          />
        )}
        {destination.kind === "exchange" && (
          <Field
            label="Routing key"
            value={destination.key}
            onValue={(key) => change({ key })}
            hint="empty: keep its key"
          />
        )}
        <div class="checks">
          <Checkbox
            label="Remove x-death headers (otherwise the message may be dropped as a dead-letter cycle)"
            value={destination.dropHistory}
            onValue={(dropHistory) => change({ dropHistory })}
          />
        </div>
      </Form>
    </Card>
  );
}

/** Outcome of the first message, and the button that sends the rest. */
function Outcome(props: {
  vhost: string;
  name: string;
  cause: Json | undefined;
  group: DeadGroup | undefined;
  canary: Canary;
  onDone: () => void;
  onAgain: () => void;
}): JSX.Element {
  const { result, queue, destination } = props.canary;
  const fields = { columns: "messages_ready,messages_unacknowledged,consumers" };
  const here = usePoll<Queue>(url(["queues", props.vhost, props.name], fields), 2000);
  const there = usePoll<Queue>(
    queue === null ? null : url(["queues", props.vhost, queue], fields),
    2000,
  );
  const [expected, setExpected] = useState(result.left);
  useEffect(() => setExpected(result.left), [result]);
  const left = here.data?.messages_ready ?? result.left;
  // The count of a group covers the scanned messages only; there may be more.
  const others = props.cause ? (props.group?.count ?? 0) : left;
  const [speed, setSpeed] = useState("100");
  const [sending, setSending] = useState<{ sent: number; total: number } | null>(null);
  const stopped = useRef(false);
  useEffect(() => {
    stopped.current = false;
    return () => {
      stopped.current = true;
    };
  }, []);
  const perSecond = Math.max(1, Math.min(MOST, Number.parseInt(speed, 10) || 1));
  const sendRemaining = async (): Promise<void> => {
    const sure = await confirmAction({
      title: "Send the remaining messages?",
      text: `Sends ${plural(others, "message")} ${describe(destination)}, at most ${plural(perSecond, "message")} per second: about ${duration(others / perSecond)}.`,
      action: `Send ${whole(others)}`,
    });
    if (!sure) return;
    stopped.current = false;
    const total = { moved: 0 };
    await attempt(async () => {
      while (total.moved < others && !stopped.current) {
        const began = Date.now();
        const moved = await post<Moved>(url(["queues", props.vhost, props.name, "move"]), {
          destination: destinationBody(destination),
          count: Math.min(perSecond, others - total.moved),
          drop_history: destination.dropHistory,
          cause: props.cause,
        });
        total.moved += moved.moved;
        setSending({ sent: total.moved, total: others });
        setExpected(moved.left);
        if (moved.moved === 0 || moved.stopped) {
          notifyMoved({ ...moved, moved: total.moved });
          return;
        }
        if (total.moved < others) await pause(1000 - (Date.now() - began));
        else notifyMoved({ ...moved, moved: total.moved });
      }
    });
    setSending(null);
    here.refresh();
    props.onDone();
  };
  return (
    <Card title="First message sent">
      <div class="stack">
        <p>
          {queue === null
            ? "The message was published to the exchange."
            : `The message is now in ${queue}${there.data ? `, which has ${plural(there.data.messages_ready, "ready message")}, ${whole(there.data.messages_unacknowledged)} unacknowledged and ${plural(there.data.consumers, "consumer")}` : ""}.`}{" "}
          {`${plural(left, "message")} ${left === 1 ? "is" : "are"} left in ${props.name}.`}
        </p>
        {left > expected ? (
          <p class="note-box warn">
            {plural(left - expected, "message")} returned. Inspect before you send the rest.
          </p>
        ) : there.data?.consumers === 0 ? (
          <p class="note-box warn">
            The destination queue has no consumers, so the outcome is not known yet.
          </p>
        ) : (
          <p class="note-box good">No messages have returned so far.</p>
        )}
        {sending === null && others === 0 && (
          <p>
            <span>{props.cause ? "No messages left with this cause." : "The queue is empty."}</span>{" "}
            <a href={link(["deadletters"])}>All dead letters</a>
          </p>
        )}
        <div class="buttons start">
          {left > 0 && (
            <button type="button" onClick={props.onAgain}>
              Show next message
            </button>
          )}
          {sending === null && others === 0 ? null : sending === null ? (
            <>
              <button type="button" class="primary" onClick={() => void sendRemaining()}>
                Send remaining {whole(others)}…
              </button>
              <label class="row">
                at most
                <input
                  type="number"
                  min="1"
                  max={MOST}
                  aria-label="Messages per second"
                  value={speed}
                  onInput={(event) => setSpeed(event.currentTarget.value)}
                />
                per second: about {duration(others / perSecond)}
              </label>
            </>
          ) : (
            <>
              <span role="status">
                {whole(sending.sent)} of {whole(sending.total)} sent, about{" "}
                {duration((sending.total - sending.sent) / perSecond)} left
              </span>
              <button
                type="button"
                onClick={() => {
                  stopped.current = true;
                }}
              >
                Stop
              </button>
            </>
          )}
        </div>
      </div>
    </Card>
  );
}
