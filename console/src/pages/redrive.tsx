/** Sending dead letters back: one first, and the rest when that one fared well. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { post } from "../api";
import { plural, whole } from "../format";
import { usePlace } from "../place";
import { usePoll } from "../poll";
import { exchangePart, link, url } from "../route";
import type { Browsed, DeadGroup, Json, Message, Queue } from "../types";
import { Card, Empty, PageHead, Ready } from "../ui/basics";
import { confirmed } from "../ui/dialog";
import { Area, Check, Choice, Field, Form } from "../ui/form";
import { headersOf, MessageBody, propertiesOf } from "../ui/message";
import { attempt } from "../ui/notices";
import { useNames } from "../ui/vhost-field";
import { Reason, redriveLink } from "./deadletters";
import { type Moved, sayMoved } from "./move";

interface Way {
  kind: string; // origin, queue or exchange
  target: string;
  key: string;
  forget: boolean;
}

interface Canary {
  result: Moved;
  queue: string | null; // where it went, when that is known
  way: Way;
}

function destinationOf(way: Way): Json {
  if (way.kind === "origin") return { origin: true };
  if (way.kind === "queue") return { queue: way.target };
  return { exchange: exchangePart(way.target), routing_key: way.key || undefined };
}

function wordsOf(way: Way): string {
  return way.kind === "origin"
    ? "back where each of them died first"
    : `to ${way.kind} ${way.target}`;
}

/** A group of dead letters, as the address names it; without one, all of the queue. */
function useCause(): { cause: Json | undefined; offset: number } {
  const { query } = usePlace();
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
  const group = cause && own.find((one) => isOf(one, cause));
  // When the group is known, its first message is where the broker says it is now.
  const start = group?.first_offset ?? offset;
  const head = usePoll<Browsed>(
    url([...path, "browse"], { offset: start, count: 1, truncate: 1 << 20 }),
    0,
  );
  const again = (): void => {
    head.refresh();
    groups.refresh();
  };
  return (
    <>
      <PageHead kind="Redrive" title={props.name}>
        <a href={link(path, { tab: "messages" })}>All messages of this queue</a>
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
          onDone={again}
          onAgain={() => {
            setCanary(null);
            again();
          }}
        />
      )}
      {!canary && (
        <Ready polled={head}>
          {(data) =>
            data.items[0] && (!cause || !groups.data || group) ? (
              <First
                key={data.items[0].offset}
                vhost={props.vhost}
                name={props.name}
                cause={cause}
                message={data.items[0]}
                onSent={(sent) => {
                  setCanary(sent);
                  again();
                }}
                onChanged={again}
              />
            ) : (
              <Card>
                <Empty
                  title={cause ? "None of this cause is left" : "This queue holds no messages"}
                >
                  <a href={link(["deadletters"])}>All dead letters</a>
                </Empty>
              </Card>
            )
          }
        </Ready>
      )}
    </>
  );
}

function isOf(group: DeadGroup, cause: Json): boolean {
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
    <Card title="Why they are here">
      <ul class="bare causes">
        {props.groups.map((one) => {
          const chosen = props.cause !== undefined && isOf(one, props.cause);
          return (
            <li key={JSON.stringify([one.died_in, one.reason, one.exchange])}>
              <b>{whole(one.count)}</b> died in {one.died_in || "(no name)"}{" "}
              <Reason reason={one.reason} />{" "}
              {chosen ? <b>these are sent</b> : <a href={redriveLink(one)}>send these</a>}
            </li>
          );
        })}
        {props.cause === undefined ? (
          <li>
            <b>All messages of the queue are sent</b>, from the head.
          </li>
        ) : (
          <li>
            <a href={link(["deadletters", props.vhost, props.name])}>
              Send all messages of the queue
            </a>
          </li>
        )}
      </ul>
    </Card>
  );
}

function First(props: {
  vhost: string;
  name: string;
  cause: Json | undefined;
  message: Message;
  onSent: (canary: Canary) => void;
  onChanged: () => void;
}): JSX.Element {
  const { message } = props;
  const origin = headersOf(message)["x-first-death-queue"];
  const [way, setWay] = useState<Way>({
    kind: typeof origin === "string" ? "origin" : "queue",
    target: "",
    key: "",
    forget: true,
  });
  const [edited, setEdited] = useState(false);
  const [payload, setPayload] = useState(message.payload);
  const [properties, setProperties] = useState(JSON.stringify(propertiesOf(message), null, 2));
  const names = useNames(way.kind === "exchange" ? "exchanges" : "queues", props.vhost);
  const change = (part: Partial<Way>): void => setWay({ ...way, ...part });
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
        destination: destinationOf(way),
        count: 1,
        first_offset: message.offset,
        edit,
        drop_history: way.forget,
        cause: props.cause,
      };
      const result = await post<Moved>(url(["queues", props.vhost, props.name, "move"]), body);
      if (result.moved === 1) {
        const queue =
          way.kind === "origin" ? String(origin) : way.kind === "queue" ? way.target : null;
        props.onSent({ result, queue, way });
      } else {
        sayMoved(result);
        props.onChanged();
      }
    });
  return (
    <Card title={`The first message, #${message.offset}`}>
      {!edited && <MessageBody message={message} inside />}
      <Form
        action="Send this one first"
        onSend={send}
        extra={
          <button type="button" onClick={() => setEdited(!edited)}>
            {edited ? "Leave it as it is" : "Edit it"}
          </button>
        }
      >
        {edited && (
          <>
            <Area label="Payload" value={payload} onValue={setPayload} rows={8} />
            <Area label="Properties, as JSON" value={properties} onValue={setProperties} rows={8} />
          </>
        )}
        <Choice
          label="Where to"
          value={way.kind}
          onValue={(kind) => change({ kind })}
          options={[
            [
              "origin",
              `back where it died first${typeof origin === "string" ? `: ${origin}` : ""}`,
            ],
            ["queue", "to a queue"],
            ["exchange", "to an exchange"],
          ]}
        />
        {way.kind !== "origin" && (
          <Field
            label={way.kind === "queue" ? "Queue" : "Exchange"}
            value={way.target}
            onValue={(target) => change({ target })}
            suggestions={names.filter((name) => name !== props.name)}
            required={way.kind === "queue"}
          />
        )}
        {way.kind === "exchange" && (
          <Field
            label="Routing key"
            value={way.key}
            onValue={(key) => change({ key })}
            hint="empty: its own"
          />
        )}
        <div class="checks">
          <Check
            label="Forget how it died (else it may be taken for a circle and dropped)"
            value={way.forget}
            onValue={(forget) => change({ forget })}
          />
        </div>
      </Form>
    </Card>
  );
}

/** How the first one fares, and the button for the rest. */
function Outcome(props: {
  vhost: string;
  name: string;
  cause: Json | undefined;
  group: DeadGroup | undefined;
  canary: Canary;
  onDone: () => void;
  onAgain: () => void;
}): JSX.Element {
  const { result, queue, way } = props.canary;
  const fields = { columns: "messages_ready,messages_unacknowledged,consumers" };
  const here = usePoll<Queue>(url(["queues", props.vhost, props.name], fields), 2000);
  const there = usePoll<Queue>(
    queue === null ? null : url(["queues", props.vhost, queue], fields),
    2000,
  );
  const [expected, setExpected] = useState(result.left);
  useEffect(() => setExpected(result.left), [result]);
  const left = here.data?.messages_ready ?? result.left;
  // The broker looks at some thousands of messages for a group: there may be more of them.
  const others = props.cause ? (props.group?.count ?? 0) : left;
  const rest = async (): Promise<void> => {
    const sure = await confirmed({
      title: "Send the rest?",
      text: `${plural(others, "message")} ${wordsOf(way)}.`,
      action: `Send ${whole(others)}`,
    });
    if (!sure) return;
    await attempt(async () => {
      const body = {
        destination: destinationOf(way),
        count: others,
        drop_history: way.forget,
        cause: props.cause,
      };
      const moved = await post<Moved>(url(["queues", props.vhost, props.name, "move"]), body);
      sayMoved(moved);
      setExpected(moved.left);
      here.refresh();
      props.onDone();
    });
  };
  return (
    <Card title="The first one is on its way">
      <div class="stack">
        <p>
          {queue === null ? "It went through the exchange." : `It is in ${queue}.`}{" "}
          {there.data &&
            `There: ${whole(there.data.messages_ready)} ready, ${whole(there.data.messages_unacknowledged)} with ${plural(there.data.consumers, "consumer")}.`}{" "}
          Here: {whole(left)} left.
        </p>
        {left > expected ? (
          <p class="note-box warn">
            {plural(left - expected, "message")} came back since. Look at it before you send the
            rest.
          </p>
        ) : (
          <p class="note-box good">Nothing came back so far.</p>
        )}
        {there.data?.consumers === 0 && (
          <p class="note-box warn">Nobody consumes there: how it fares is not known yet.</p>
        )}
        <div class="buttons start">
          <button type="button" onClick={props.onAgain}>
            Look at the next one
          </button>
          <button type="button" class="primary" disabled={others === 0} onClick={() => void rest()}>
            Send the other {whole(others)}…
          </button>
        </div>
      </div>
    </Card>
  );
}
