/** Dead letters, grouped by queue and cause. */

import type { JSX } from "preact";

import { ago, plural, whole } from "../format";
import { usePoll } from "../poll";
import { useShared, vhost } from "../state";
import type { DeadGroup } from "../types";
import { Badge, Card, Empty, Loaded, PageHead, Rows, type Tone } from "../ui/basics";
import { ExchangeLink, QueueLink } from "../ui/links";
import { link, url } from "../urls";

interface DeadLetters {
  groups: DeadGroup[];
  partly: { vhost: string; queue: string; looked_at: number; messages_ready: number }[];
}

export const REASONS: Record<string, [string, string, Tone]> = {
  rejected: ["rejected", "rejected by a consumer", "bad"],
  expired: ["expired", "expired before delivery", "warn"],
  maxlen: ["queue full", "exceeded the length limit of the queue", "warn"],
  delivery_limit: ["delivery limit", "exceeded the delivery limit", "bad"],
};

export function Reason(props: { reason: string }): JSX.Element {
  const [text, why, tone] = REASONS[props.reason] ?? [props.reason, props.reason, "plain"];
  return (
    <Badge tone={tone} title={why}>
      {text}
    </Badge>
  );
}

export function redriveLink(one: DeadGroup): string {
  return link(["deadletters", one.vhost, one.queue], {
    offset: one.first_offset ?? 0,
    died_in: one.died_in,
    reason: one.reason,
    exchange: one.exchange === "" ? undefined : one.exchange,
  });
}

export function DeadLettersPage(): JSX.Element {
  const chosen = useShared(vhost);
  const path = chosen === null ? ["deadletters"] : ["deadletters", chosen];
  const polled = usePoll<DeadLetters>(url(path), 30_000);
  return (
    <>
      <PageHead title="Dead letters">
        <button type="button" onClick={polled.refresh}>
          Refresh
        </button>
      </PageHead>
      <Loaded polled={polled}>
        {(data) => (
          <>
            <Card flush>
              {data.groups.length === 0 ? (
                <div class="pad">
                  <Empty title="No dead letters">
                    Messages that are rejected, expire or exceed a queue limit are dead-lettered if
                    the queue has the argument <code>x-dead-letter-exchange</code> or a policy sets
                    it.
                  </Empty>
                </div>
              ) : (
                <Groups groups={data.groups} />
              )}
            </Card>
            {data.partly.map((one) => (
              <p key={`${one.vhost} ${one.queue}`} class="note-box">
                {one.queue}: only the first {whole(one.looked_at)} of {whole(one.messages_ready)}{" "}
                messages were scanned.
              </p>
            ))}
          </>
        )}
      </Loaded>
    </>
  );
}

function Groups(props: { groups: DeadGroup[] }): JSX.Element {
  return (
    <Rows
      label="Dead letters by cause"
      head={[
        "Cause",
        "From queue",
        ["Now in", "low"],
        ["Published to", "low"],
        ["Count", "num"],
        ["Newest", "low"],
        ["", "num"],
      ]}
      rows={props.groups}
      id={(one) => JSON.stringify([one.vhost, one.queue, one.died_in, one.reason, one.exchange])}
      cells={(one) => [
        <Reason reason={one.reason} />,
        <QueueLink vhost={one.vhost} name={one.died_in} />,
        <QueueLink vhost={one.vhost} name={one.queue} bare />,
        <>
          <ExchangeLink vhost={one.vhost} name={one.exchange} bare />
          <span class="sub" title={one.routing_keys.join(", ")}>
            {one.routing_keys.slice(0, 3).join(", ")}
            {one.routing_keys.length > 3 &&
              ` and ${plural(one.routing_keys.length - 3, "more", "more")}`}
          </span>
        </>,
        whole(one.count),
        one.newest === null ? "–" : ago(one.newest * 1000, Date.now()),
        <a href={redriveLink(one)}>Redrive…</a>,
      ]}
    />
  );
}
