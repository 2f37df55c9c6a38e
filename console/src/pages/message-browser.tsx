/** Browses the messages of a queue without consuming them. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { post } from "../api";
import { plural } from "../format";
import { usePoll } from "../poll";
import type { Browsed } from "../types";
import { Empty, Failure, Loading } from "../ui/basics";
import { confirmAction } from "../ui/dialog";
import { Checkbox } from "../ui/form";
import { MessageList } from "../ui/message";
import { attempt, notify } from "../ui/notices";
import { url } from "../urls";

const COUNT = 25;

export function MessageBrowser(props: {
  vhost: string;
  name: string;
  onDone: () => void;
}): JSX.Element {
  const [starts, setStarts] = useState<number[]>([0]);
  const [settled, setSettled] = useState(false);
  const start = starts.at(-1) ?? 0;
  const query = {
    offset: start,
    count: COUNT,
    settled: settled ? "true" : undefined,
    truncate: 16384,
  };
  const polled = usePoll<Browsed>(url(["queues", props.vhost, props.name, "browse"], query), 0);
  const data = polled.data;
  const reject = async (): Promise<void> => {
    const sure = await confirmAction({
      title: "Reject the first ready message?",
      text: "It goes to the dead-letter exchange of the queue. Without one it is deleted.",
      action: "Reject",
    });
    if (!sure) return;
    await attempt(async () => {
      const body = { count: 1, ackmode: "reject_requeue_false", encoding: "auto", truncate: 0 };
      const path = url(["queues", props.vhost, props.name, "get"]);
      const rejected = await post<unknown[]>(path, body);
      notify(rejected.length > 0 ? "1 message rejected." : "The queue has no ready messages.");
      polled.refresh();
      props.onDone();
    });
  };
  return (
    <section class="card flush" aria-label="Messages">
      <div class="list-head">
        <div class="row">
          <button
            type="button"
            onClick={() => (starts.length > 1 ? setStarts([0]) : polled.refresh())}
          >
            Refresh from head
          </button>
          <button type="button" class="danger" onClick={() => void reject()}>
            Reject first message…
          </button>
          <Checkbox
            label="include settled messages still in the log"
            value={settled}
            onValue={(value) => {
              setSettled(value);
              setStarts([0]);
            }}
          />
        </div>
        <span class="muted low1">
          Browsing does not consume messages or mark them as redelivered.
        </span>
      </div>
      <Failure error={polled.error} />
      {!data && !polled.error && <Loading />}
      {data && data.items.length === 0 && (
        <div class="pad">
          <Empty title="No ready messages">
            {data.messages_unacknowledged > 0
              ? `${plural(data.messages_unacknowledged, "message")} unacknowledged.`
              : "Published messages appear here."}
          </Empty>
        </div>
      )}
      {data && <MessageList messages={data.items} />}
      {data && (starts.length > 1 || data.next_offset !== null) && (
        <nav class="pager" aria-label="Pages of messages">
          <button
            type="button"
            disabled={starts.length < 2}
            onClick={() => setStarts(starts.slice(0, -1))}
          >
            ← Previous
          </button>
          <button
            type="button"
            disabled={data.next_offset === null}
            onClick={() => setStarts([...starts, data.next_offset ?? start])}
          >
            Next →
          </button>
        </nav>
      )}
    </section>
  );
}
