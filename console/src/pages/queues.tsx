/** Queues: how full they are, how fast they move, who consumes. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { put } from "../api";
import { rate, whole } from "../format";
import { adjust, go, usePlace } from "../place";
import { url } from "../route";
import { vhost } from "../state";
import { type Queue, rateOf } from "../types";
import { Badge, Empty, PageHead } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { Check, Choice, Field, Form, objectOf, PairRows, type Pairs } from "../ui/form";
import { Features, QueueLink } from "../ui/links";
import { List } from "../ui/list";
import { attempt } from "../ui/notices";
import { VhostField } from "../ui/vhost-field";

const FIELDS =
  "name,vhost,type,durable,auto_delete,exclusive,arguments,policy,messages_ready," +
  "messages_unacknowledged,consumers,message_stats.publish_details,message_stats.deliver_get_details," +
  "message_stats.ack_details";

export function QueuesPage(): JSX.Element {
  const { query } = usePlace();
  return (
    <>
      <PageHead title="Queues">
        <button type="button" class="primary" onClick={() => adjust({ new: "1" })}>
          New queue
        </button>
      </PageHead>
      <List<Queue>
        label="Queues"
        parts={["queues"]}
        fields={FIELDS}
        id={(one) => JSON.stringify([one.vhost, one.name])}
        empty={
          <Empty title="No queues yet">
            Clients declare them, or{" "}
            <button type="button" class="small" onClick={() => adjust({ new: "1" })}>
              make one here
            </button>
          </Empty>
        }
        columns={[
          {
            label: "Queue",
            sort: "name",
            cell: (one) => <QueueLink vhost={one.vhost} name={one.name} />,
          },
          { label: "Features", low: 2, cell: (one) => <Features queue={one} /> },
          {
            label: "Ready",
            sort: "messages_ready",
            num: true,
            cell: (one) => whole(one.messages_ready),
          },
          {
            label: "Unacked",
            sort: "messages_unacknowledged",
            num: true,
            cell: (one) => whole(one.messages_unacknowledged),
          },
          {
            label: "Consumers",
            sort: "consumers",
            num: true,
            low: 1,
            cell: (one) =>
              one.consumers === 0 && one.messages_ready > 0 ? (
                <Badge tone="warn" title="messages wait and nobody takes them">
                  none
                </Badge>
              ) : (
                whole(one.consumers)
              ),
          },
          {
            label: "In",
            sort: "message_stats.publish_details.rate",
            num: true,
            cell: (one) => rate(rateOf(one.message_stats, "publish")),
          },
          {
            label: "Out",
            sort: "message_stats.deliver_get_details.rate",
            num: true,
            low: 1,
            cell: (one) => rate(rateOf(one.message_stats, "deliver_get")),
          },
          {
            label: "Ack",
            sort: "message_stats.ack_details.rate",
            num: true,
            low: 2,
            cell: (one) => rate(rateOf(one.message_stats, "ack")),
          },
        ]}
      />
      {query.new && <NewQueue />}
    </>
  );
}

const ARGUMENTS = [
  "x-message-ttl",
  "x-expires",
  "x-max-length",
  "x-max-length-bytes",
  "x-overflow",
  "x-dead-letter-exchange",
  "x-dead-letter-routing-key",
  "x-max-priority",
  "x-single-active-consumer",
  "x-queue-type",
];

function NewQueue(): JSX.Element {
  const [where, setWhere] = useState(vhost.value ?? "/");
  const [name, setName] = useState("");
  const [durable, setDurable] = useState("true");
  const [autoDelete, setAutoDelete] = useState(false);
  const [pairs, setPairs] = useState<Pairs>([]);
  const make = async (): Promise<void> => {
    const body = {
      durable: durable === "true",
      auto_delete: autoDelete,
      arguments: objectOf(pairs),
    };
    const made = await attempt(
      () => put(url(["queues", where, name]), body),
      `Queue ${name} is there.`,
    );
    if (made) go(["queues", where, name]);
  };
  return (
    <Dialog title="New queue" onClose={() => adjust({ new: undefined })} wide>
      <Form action="Make queue" onSend={make}>
        <VhostField value={where} onValue={setWhere} />
        <Field label="Name" value={name} onValue={setName} required autofocus />
        <Choice
          label="Kept"
          value={durable}
          onValue={setDurable}
          options={[
            ["true", "durable: survives a restart"],
            ["false", "transient: gone after a restart"],
          ]}
        />
        <div class="checks">
          <Check
            label="Auto-delete: goes with its last consumer"
            value={autoDelete}
            onValue={setAutoDelete}
          />
        </div>
        <PairRows label="Arguments" pairs={pairs} onPairs={setPairs} suggestions={ARGUMENTS} />
      </Form>
    </Dialog>
  );
}
