/** Virtual hosts: list, details, permissions and limits. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { del, put } from "../api";
import { rate, whole } from "../format";
import { navigate, updateQuery, useAddress } from "../navigation";
import { usePoll } from "../poll";
import { vhost as chosen, may } from "../state";
import { type Permission, rateOf, type Vhost } from "../types";
import { Card, Empty, Facts, Loaded, PageHead } from "../ui/basics";
import { confirmAction, Dialog } from "../ui/dialog";
import { Field, Form } from "../ui/form";
import { List } from "../ui/list";
import { attempt } from "../ui/notices";
import { link, url } from "../urls";
import { LimitRows } from "./limits";
import { PermissionForm, PermissionRows } from "./permissions";

export function VhostsPage(): JSX.Element {
  const { query } = useAddress();
  return (
    <>
      <PageHead title="Virtual hosts">
        {may("administrator") && (
          <button type="button" class="primary" onClick={() => updateQuery({ new: "1" })}>
            New virtual host
          </button>
        )}
      </PageHead>
      <List<Vhost>
        label="Virtual hosts"
        parts={["vhosts"]}
        global
        fields="name,description,messages_ready,messages_unacknowledged,message_stats.publish_details,message_stats.deliver_get_details"
        id={(one) => one.name}
        empty={
          <Empty title="No accessible virtual hosts">Ask an administrator for permissions.</Empty>
        }
        columns={[
          {
            label: "Name",
            sort: "name",
            cell: (one) => (
              <>
                <a href={link(["vhosts", one.name])}>{one.name}</a>
                <span class="sub">{one.description}</span>
              </>
            ),
          },
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
            low: 1,
            cell: (one) => whole(one.messages_unacknowledged),
          },
          { label: "In", num: true, cell: (one) => rate(rateOf(one.message_stats, "publish")) },
          {
            label: "Out",
            num: true,
            cell: (one) => rate(rateOf(one.message_stats, "deliver_get")),
          },
        ]}
      />
      {query.new && <NewVhost />}
    </>
  );
}

function NewVhost(): JSX.Element {
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const create = async (): Promise<void> => {
    const body = { description };
    const created = await attempt(
      () => put(url(["vhosts", name]), body),
      `Virtual host ${name} created.`,
    );
    if (created) navigate(["vhosts", name]);
  };
  return (
    <Dialog title="New virtual host" onClose={() => updateQuery({ new: undefined })}>
      <Form action="Create virtual host" onSend={create}>
        <Field label="Name" value={name} onValue={setName} required autofocus />
        <Field label="Description" value={description} onValue={setDescription} />
      </Form>
    </Dialog>
  );
}

export function VhostPage(props: { name: string }): JSX.Element {
  const polled = usePoll<Vhost>(url(["vhosts", props.name]));
  const remove = async (): Promise<void> => {
    const sure = await confirmAction({
      title: "Delete this virtual host?",
      text: "All exchanges, queues and messages in it are deleted, and its connections are closed.",
      action: "Delete virtual host",
      typed: props.name,
    });
    if (sure && (await attempt(() => del(url(["vhosts", props.name])), "Virtual host deleted."))) {
      if (chosen.value === props.name) chosen.value = null;
      navigate(["vhosts"]);
    }
  };
  return (
    <>
      <PageHead kind="Virtual host" title={props.name}>
        <button
          type="button"
          onClick={() => {
            chosen.value = props.name;
            navigate(["queues"]);
          }}
        >
          Show queues
        </button>
        {may("administrator") && (
          <button type="button" class="danger" onClick={() => void remove()}>
            Delete…
          </button>
        )}
      </PageHead>
      <Loaded polled={polled}>
        {(one) => (
          <Card>
            <Facts
              rows={[
                ["Description", one.description || "–"],
                ["Tags", one.tags.join(", ") || "–"],
                ["Ready", whole(one.messages_ready)],
                ["Unacked", whole(one.messages_unacknowledged)],
                ["In", rate(rateOf(one.message_stats, "publish") ?? 0)],
                ["Out", rate(rateOf(one.message_stats, "deliver_get") ?? 0)],
              ]}
            />
          </Card>
        )}
      </Loaded>
      {may("administrator") && <VhostPermissions vhost={props.name} />}
      <LimitRows kind="vhost" name={props.name} />
    </>
  );
}

function VhostPermissions(props: { vhost: string }): JSX.Element {
  const polled = usePoll<Permission[]>(url(["vhosts", props.vhost, "permissions"]), 0);
  return (
    <Card title="Permissions" flush>
      <Loaded polled={polled}>
        {(rows) => <PermissionRows rows={rows} side="user" onChange={polled.refresh} />}
      </Loaded>
      <div class="pad">
        <PermissionForm vhost={props.vhost} onDone={polled.refresh} />
      </div>
    </Card>
  );
}
