/** Finding a message by its id, key or text, and telling its life. */

import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";

import { get } from "../api";
import { moment, plural } from "../format";
import { type Criterion, type Fate, type Found, matches, stationsOf } from "../lifeline";
import { adjust, usePlace } from "../place";
import { usePoll } from "../poll";
import { link, url } from "../route";
import { has, vhost } from "../state";
import type { Browsed } from "../types";
import { Card, Empty, PageHead } from "../ui/basics";
import { Check, Choice, Field, Form } from "../ui/form";
import { MessageBody } from "../ui/message";
import { notify } from "../ui/notices";
import { useNames, VhostField } from "../ui/vhost-field";

const PER_QUEUE = 2000;
const PAGE = 200;
const ENOUGH = 20;
const AT_ONCE = 4; // queues; browsers keep six connections

interface Progress {
  looked: number;
  queues: number;
  found: Found[];
  done: boolean;
}

interface Wanted {
  vhost: string;
  queues: string[];
  by: Criterion;
  text: string;
  kept: boolean;
}

/** Look through some queues at a time, page by page; calls back after each queue. */
async function scan(
  wanted: Wanted,
  signal: AbortSignal,
  tell: (now: Progress) => void,
): Promise<void> {
  const now: Progress = { looked: 0, queues: 0, found: [], done: false };
  const left = [...wanted.queues];
  const worker = async (): Promise<void> => {
    for (let queue = left.shift(); queue !== undefined; queue = left.shift()) {
      if (now.found.length >= ENOUGH) return;
      await scanQueue(wanted, queue, now, signal);
      now.queues += 1;
      tell({ ...now, found: [...now.found] });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  tell({ ...now, done: true });
}

async function scanQueue(
  wanted: Wanted,
  queue: string,
  now: Progress,
  signal: AbortSignal,
): Promise<void> {
  let offset: number | null = 0;
  for (let looked = 0; offset !== null && looked < PER_QUEUE && now.found.length < ENOUGH; ) {
    const query = {
      offset,
      count: PAGE,
      truncate: 4096,
      settled: wanted.kept ? "true" : undefined,
    };
    const path = url(["queues", wanted.vhost, queue, "browse"], query);
    const page: Browsed = await get<Browsed>(path, signal);
    looked += page.items.length;
    now.looked += page.items.length;
    for (const message of page.items) {
      if (matches(message, wanted.by, wanted.text)) {
        const ready = !wanted.kept || (await isReady(wanted.vhost, queue, message.offset, signal));
        now.found.push({ vhost: wanted.vhost, queue, message, ready });
      }
    }
    offset = page.next_offset;
  }
}

/** Whether it still waits, or is only kept. */
async function isReady(
  vhost: string,
  queue: string,
  offset: number,
  signal: AbortSignal,
): Promise<boolean> {
  const path = url(["queues", vhost, queue, "browse"], { offset, count: 1, truncate: 1 });
  return (await get<Browsed>(path, signal)).items[0]?.offset === offset;
}

export function FindPage(): JSX.Element {
  const { query } = usePlace();
  const [where, setWhere] = useState(query.vhost ?? vhost.value ?? "/");
  const [by, setBy] = useState<string>(query.by ?? "message_id");
  const [text, setText] = useState(query.text ?? "");
  const [queue, setQueue] = useState(query.queue ?? "");
  const [kept, setKept] = useState(true);
  const [progress, setProgress] = useState<Progress | null>(null);
  const running = useRef<AbortController | null>(null);
  const names = useNames("queues", where);
  const look = async (): Promise<void> => {
    running.current?.abort();
    running.current = new AbortController();
    adjust({ vhost: where, by, text, queue: queue || undefined });
    setProgress({ looked: 0, queues: 0, found: [], done: false });
    const queues = queue ? [queue] : names;
    const wanted = { vhost: where, queues, by: by as Criterion, text, kept };
    try {
      await scan(wanted, running.current.signal, setProgress);
    } catch (error) {
      notify(error instanceof Error ? error.message : String(error), true);
      setProgress(null);
    }
  };
  return (
    <>
      <PageHead title="Find a message" />
      <Card>
        <Form action="Find" onSend={look}>
          <VhostField value={where} onValue={setWhere} />
          <Choice
            label="By"
            value={by}
            onValue={setBy}
            options={[
              ["message_id", "message id"],
              ["correlation_id", "correlation id"],
              ["routing_key", "routing key"],
              ["text", "text in the payload"],
            ]}
          />
          <Field label="Which" value={text} onValue={setText} required autofocus />
          <Field
            label="Queue"
            value={queue}
            onValue={setQueue}
            suggestions={names}
            placeholder={`all ${names.length}`}
          />
          <div class="checks">
            <Check
              label="Also messages that are done with and still kept on disk"
              value={kept}
              onValue={setKept}
            />
          </div>
        </Form>
        <p class="muted">
          Up to {PER_QUEUE} messages of each queue are looked at, from the head. None is taken.
        </p>
      </Card>
      {progress && <Results progress={progress} />}
    </>
  );
}

function Results(props: { progress: Progress }): JSX.Element {
  const { looked, queues, found, done } = props.progress;
  return (
    <>
      <p class="muted" role="status">
        {done ? "Looked" : "Looking"} at {plural(looked, "message")} in {plural(queues, "queue")}:{" "}
        {found.length} found.
      </p>
      {done && found.length === 0 && (
        <Card>
          <Empty title="Not found">
            It was acknowledged and is not kept any more, it never reached a queue, or it is further
            back than was looked.
          </Empty>
        </Card>
      )}
      {found.map((one) => (
        <Life key={`${one.queue} ${one.message.offset}`} found={one} />
      ))}
    </>
  );
}

interface Fates {
  noted: boolean;
  events: Fate[];
}

const EVENTS = "/api/queues/{vhost}/{name}/events";

function Life(props: { found: Found }): JSX.Element {
  const { found } = props;
  const path = url(["queues", found.vhost, found.queue, "events"], {
    offset: found.message.offset,
  });
  const { data } = usePoll<Fates>(has(EVENTS) ? path : null, 0);
  return (
    <Card
      title={
        <a href={link(["queues", found.vhost, found.queue], { tab: "messages" })}>
          {found.queue} #{found.message.offset}
        </a>
      }
    >
      <ol class="steps" aria-label="Life of the message">
        {stationsOf(found, data?.events).map((station, index) => (
          <li key={index} class={station.bad ? "bad" : undefined}>
            {station.text} {station.at !== null && <span class="muted">{moment(station.at)}</span>}
            <span class="sub">{station.detail}</span>
          </li>
        ))}
      </ol>
      {data?.noted === false && (
        <p class="muted">
          When messages are acknowledged or delivered again is noted with{" "}
          <code>headrace serve --events</code>.
        </p>
      )}
      <MessageBody message={found.message} inside />
    </Card>
  );
}
