/** List of queues. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { put } from "../api";
import { rate, whole } from "../format";
import { navigate, updateQuery, useAddress } from "../navigation";
import { vhost } from "../state";
import { type Queue, rateOf } from "../types";
import { Badge, Empty, PageHead } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import {
  Checkbox,
  Field,
  Form,
  KeyValueFields,
  type KeyValues,
  objectOf,
  Select,
} from "../ui/form";
import { Features, QueueLink } from "../ui/links";
import { List } from "../ui/list";
import { attempt } from "../ui/notices";
import { VhostField } from "../ui/vhost-field";
import { url } from "../urls";

const FIELDS =
  "name,vhost,type,durable,auto_delete,exclusive,arguments,policy,messages_ready," +
  "messages_unacknowledged,consumers,message_stats.publish_details,message_stats.deliver_get_details," +
  "message_stats.ack_details";

export function QueuesPage(): JSX.Element {
  const { query } = useAddress();
  return (
    <>
      <PageHead title="Queues">
        <button type="button" class="primary" onClick={() => updateQuery({ new: "1" })}>
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
            <button type="button" class="small" onClick={() => updateQuery({ new: "1" })}>
              create one here
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
                <Badge tone="warn" title="ready messages and no consumers">
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
  const [pairs, setPairs] = useState<KeyValues>([]);
  const create = async (): Promise<void> => {
    const body = {
      durable: durable === "true",
      auto_delete: autoDelete,
      arguments: objectOf(pairs),
    };
    const created = await attempt(
      () => put(url(["queues", where, name]), body),
      `Queue ${name} created.`,
    );
    if (created) navigate(["queues", where, name]);
  };
  return (
    <Dialog title="New queue" onClose={() => updateQuery({ new: undefined })} wide>
      <Form action="Create queue" onSend={create}>
        <VhostField value={where} onValue={setWhere} />
        <Field label="Name" value={name} onValue={setName} required autofocus />
        <Select
          label="Durability"
          value={durable}
          onValue={setDurable}
          options={[
            ["true", "durable: survives a restart"],
            ["false", "transient: lost on restart"],
          ]}
        />
        <div class="checks">
          <Checkbox
            label="Auto-delete: deleted with its last consumer"
            value={autoDelete}
            onValue={setAutoDelete}
          />
        </div>
        <KeyValueFields
          label="Arguments"
          pairs={pairs}
          onPairs={setPairs}
          suggestions={ARGUMENTS}
        />
      </Form>
    </Dialog>
  );
}
