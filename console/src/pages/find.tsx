/** Searches messages by id, key or text, and shows their history. */

import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";

import { get } from "../api";
import { moment, plural } from "../format";
import {
  type Criterion,
  type FoundMessage,
  historyOf,
  matches,
  type RecordedEvent,
} from "../message-history";
import { updateQuery, useAddress } from "../navigation";
import { usePoll } from "../poll";
import { has, vhost } from "../state";
import type { Browsed } from "../types";
import { Card, Empty, PageHead } from "../ui/basics";
import { Checkbox, Field, Form, Select } from "../ui/form";
import { MessageBody } from "../ui/message";
import { notify } from "../ui/notices";
import { fetchNames, useNames, VhostField } from "../ui/vhost-field";
import { link, url } from "../urls";

const PER_QUEUE = 2000;
const PAGE = 200;
const ENOUGH = 20;
const AT_ONCE = 4; // queues; browsers keep six connections

interface Progress {
  scanned: number;
  queues: number;
  found: FoundMessage[];
  done: boolean;
}

interface Wanted {
  vhost: string;
  queues: string[];
  by: Criterion;
  text: string;
  settled: boolean;
}

/** Scans several queues at a time, page by page; reports progress after each queue. */
async function scan(
  wanted: Wanted,
  signal: AbortSignal,
  onProgress: (now: Progress) => void,
): Promise<void> {
  const now: Progress = { scanned: 0, queues: 0, found: [], done: false };
  const left = [...wanted.queues];
  const worker = async (): Promise<void> => {
    for (let queue = left.shift(); queue !== undefined; queue = left.shift()) {
      if (now.found.length >= ENOUGH) return;
      await scanQueue(wanted, queue, now, signal);
      now.queues += 1;
      onProgress({ ...now, found: [...now.found] });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  onProgress({ ...now, done: true });
}

async function scanQueue(
  wanted: Wanted,
  queue: string,
  now: Progress,
  signal: AbortSignal,
): Promise<void> {
  let offset: number | null = 0;
  for (let scanned = 0; offset !== null && scanned < PER_QUEUE && now.found.length < ENOUGH; ) {
    const query = {
      offset,
      count: PAGE,
      truncate: 4096,
      settled: wanted.settled ? "true" : undefined,
    };
    const path = url(["queues", wanted.vhost, queue, "browse"], query);
    const page: Browsed = await get<Browsed>(path, signal);
    scanned += page.items.length;
    now.scanned += page.items.length;
    for (const message of page.items) {
      if (matches(message, wanted.by, wanted.text)) {
        const ready =
          !wanted.settled || (await isReady(wanted.vhost, queue, message.offset, signal));
        now.found.push({ vhost: wanted.vhost, queue, message, ready });
      }
    }
    offset = page.next_offset;
  }
}

/** Whether the message is ready, or settled and still in the log. */
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
  const { query } = useAddress();
  const [where, setWhere] = useState(query.vhost ?? vhost.value ?? "/");
  const [by, setBy] = useState<string>(query.by ?? "message_id");
  const [text, setText] = useState(query.text ?? "");
  const [queue, setQueue] = useState(query.queue ?? "");
  const [settled, setSettled] = useState(true);
  const [progress, setProgress] = useState<Progress | null>(null);
  const running = useRef<AbortController | null>(null);
  const names = useNames("queues", where);
  const start = async (): Promise<void> => {
    running.current?.abort();
    running.current = new AbortController();
    updateQuery({ vhost: where, by, text, queue: queue || undefined });
    setProgress({ scanned: 0, queues: 0, found: [], done: false });
    const { signal } = running.current;
    try {
      // The suggestions may not be there yet, or out of date.
      const queues = queue ? [queue] : await fetchNames("queues", where, signal);
      await scan({ vhost: where, queues, by: by as Criterion, text, settled }, signal, setProgress);
    } catch (error) {
      notify(error instanceof Error ? error.message : String(error), true);
      setProgress(null);
    }
  };
  return (
    <>
      <PageHead title="Find a message" />
      <Card>
        <Form action="Find" onSend={start}>
          <VhostField value={where} onValue={setWhere} />
          <Select
            label="Search by"
            value={by}
            onValue={setBy}
            options={[
              ["message_id", "message id"],
              ["correlation_id", "correlation id"],
              ["routing_key", "routing key"],
              ["text", "text in the payload"],
            ]}
          />
          <Field label="Value" value={text} onValue={setText} required autofocus />
          <Field
            label="Queue"
            value={queue}
            onValue={setQueue}
            suggestions={names}
            placeholder="all queues"
          />
          <div class="checks">
            <Checkbox
              label="Include settled messages still in the log"
              value={settled}
              onValue={setSettled}
            />
          </div>
        </Form>
        <p class="muted">
          Searches up to {PER_QUEUE} messages of each queue, from the head, without consuming them.
        </p>
      </Card>
      {progress && <Results progress={progress} />}
    </>
  );
}

function Results(props: { progress: Progress }): JSX.Element {
  const { scanned, queues, found, done } = props.progress;
  return (
    <>
      <p class="muted" role="status">
        {done ? "Searched" : "Searching"} {plural(scanned, "message")} in {plural(queues, "queue")}:{" "}
        {found.length} found.
      </p>
      {done && found.length === 0 && (
        <Card>
          <Empty title="Not found">
            The message was acknowledged and removed, never reached a queue, or is beyond the
            searched part of its queue.
          </Empty>
        </Card>
      )}
      {found.map((one) => (
        <MessageHistory key={`${one.queue} ${one.message.offset}`} found={one} />
      ))}
    </>
  );
}

interface RecordedEvents {
  noted: boolean;
  events: RecordedEvent[];
}

const EVENTS = "/api/queues/{vhost}/{name}/events";

function MessageHistory(props: { found: FoundMessage }): JSX.Element {
  const { found } = props;
  const path = url(["queues", found.vhost, found.queue, "events"], {
    offset: found.message.offset,
  });
  const { data } = usePoll<RecordedEvents>(has(EVENTS) ? path : null, 0);
  return (
    <Card
      title={
        <a href={link(["queues", found.vhost, found.queue], { tab: "messages" })}>
          {found.queue} #{found.message.offset}
        </a>
      }
    >
      <ol class="steps" aria-label="Message history">
        {historyOf(found, data?.events).map((entry, index) => (
          <li key={index} class={entry.bad ? "bad" : undefined}>
            {entry.text} {entry.at !== null && <span class="muted">{moment(entry.at)}</span>}
            <span class="sub">{entry.detail}</span>
          </li>
        ))}
      </ol>
      {data?.noted === false && (
        <p class="muted">
          Start the broker with <code>headrace serve --events</code> to record acknowledgements and
          redeliveries.
        </p>
      )}
      <MessageBody message={found.message} inside />
    </Card>
  );
}
