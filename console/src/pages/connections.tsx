/** Client connections. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { del } from "../api";
import { ago, bytes, moment, whole } from "../format";
import { navigate } from "../navigation";
import { usePoll } from "../poll";
import type { Channel, Connection } from "../types";
import { Badge, Card, Empty, Facts, Loaded, PageHead, Values } from "../ui/basics";
import { confirmAction } from "../ui/dialog";
import { State } from "../ui/links";
import { List } from "../ui/list";
import { attempt } from "../ui/notices";
import { link, url } from "../urls";
import { ChannelRows } from "./channels";

const FIELDS =
  "name,user_provided_name,vhost,user,state,channels,protocol,ssl,connected_at,client_properties.product," +
  "recv_oct,send_oct,recv_oct_details,send_oct_details";

export function ConnectionsPage(): JSX.Element {
  return (
    <>
      <PageHead title="Connections" />
      <List<Connection>
        label="Connections"
        parts={["connections"]}
        perVhost={(vhost) => ["vhosts", vhost, "connections"]}
        fields={FIELDS}
        id={(one) => one.name}
        empty={
          <Empty title="No connections">
            The <a href={link([])}>overview</a> lists the ports.
          </Empty>
        }
        columns={[
          {
            label: "Connection",
            sort: "name",
            cell: (one) => (
              <>
                <a href={link(["connections", one.name])}>{one.user_provided_name ?? one.name}</a>
                {one.user_provided_name && <span class="sub">{one.name}</span>}
              </>
            ),
          },
          { label: "User", sort: "user", low: 1, cell: (one) => one.user },
          { label: "Vhost", sort: "vhost", low: 2, cell: (one) => one.vhost },
          { label: "State", sort: "state", cell: (one) => <State state={one.state} /> },
          {
            label: "Protocol",
            sort: "protocol",
            low: 1,
            cell: (one) => (
              <>
                {one.protocol} {one.ssl && <Badge tone="good">TLS</Badge>}
                <span class="sub">{String(one.client_properties?.product ?? "")}</span>
              </>
            ),
          },
          { label: "Channels", sort: "channels", num: true, cell: (one) => whole(one.channels) },
          {
            label: "From client",
            sort: "recv_oct_details.rate",
            num: true,
            low: 1,
            cell: (one) => octets(one.recv_oct_details?.rate),
          },
          {
            label: "To client",
            sort: "send_oct_details.rate",
            num: true,
            low: 1,
            cell: (one) => octets(one.send_oct_details?.rate),
          },
          {
            label: "Connected",
            sort: "connected_at",
            low: 2,
            cell: (one) => (
              <span title={moment(one.connected_at)}>{ago(one.connected_at, Date.now())}</span>
            ),
          },
        ]}
      />
    </>
  );
}

function octets(value: number | undefined): string {
  return `${bytes(value ?? 0)}/s`;
}

export async function closeConnection(name: string): Promise<boolean> {
  const sure = await confirmAction({
    title: "Close this connection?",
    text: `${name}\n\nThe client is notified. Most clients reconnect automatically.`,
    action: "Close connection",
  });
  const headers = { "x-reason": "Closed from the management page" };
  return sure && attempt(() => del(url(["connections", name]), headers), "Connection closed.");
}

export function ConnectionPage(props: { name: string }): JSX.Element {
  const polled = usePoll<Connection>(url(["connections", props.name]));
  const channels = usePoll<Channel[]>(url(["connections", props.name, "channels"]));
  const [gone, setGone] = useState(false);
  const close = async (): Promise<void> => {
    if (await closeConnection(props.name)) {
      setGone(true);
      navigate(["connections"]);
    }
  };
  return (
    <>
      <PageHead kind="Connection" title={polled.data?.user_provided_name ?? props.name}>
        <button type="button" class="danger" disabled={gone} onClick={() => void close()}>
          Close…
        </button>
      </PageHead>
      <Loaded polled={polled}>{(one) => <ConnectionFacts one={one} />}</Loaded>
      <Card title="Channels" flush>
        <Loaded polled={channels}>{(rows) => <ChannelRows rows={rows} />}</Loaded>
      </Card>
    </>
  );
}

function ConnectionFacts(props: { one: Connection }): JSX.Element {
  const { one } = props;
  return (
    <div class="columns">
      <Card title="Connection">
        <Facts
          rows={[
            ["Name", one.name],
            ["User", one.user],
            ["Vhost", one.vhost],
            ["State", <State state={one.state} />],
            ["Protocol", `${one.protocol}${one.ssl ? `, ${one.ssl_protocol ?? "TLS"}` : ""}`],
            ["Authentication", one.auth_mechanism ?? "–"],
            ["Connected", `${ago(one.connected_at, Date.now())} (${moment(one.connected_at)})`],
            ["Heartbeat", one.timeout ? `${one.timeout} s` : "off"],
            ["From client", `${bytes(one.recv_oct)}, ${octets(one.recv_oct_details?.rate)}`],
            ["To client", `${bytes(one.send_oct)}, ${octets(one.send_oct_details?.rate)}`],
            ["Send buffer", bytes(one.send_pend ?? 0)],
          ]}
        />
      </Card>
      <Card title="Client properties">
        <Values of={one.client_properties ?? {}} none="none" />
      </Card>
    </div>
  );
}
