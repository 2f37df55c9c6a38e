/** Map of the broker: who publishes to what, where it goes, who reads it. */

import type { JSX } from "preact";
import { useMemo, useRef } from "preact/hooks";

import { plural, rate, shortened } from "../format";
import { BOX, layoutMap, type MapEdge, offsetRates } from "../map";
import { usePoll } from "../poll";
import type { Point } from "../series";
import { useShared, vhost } from "../state";
import type { Binding, Channel, Connection, Consumer, Exchange, Group, Queue } from "../types";
import { Card, Empty, Failure, Loading, PageHead } from "../ui/basics";
import { link, url } from "../urls";

const SLOW = 15_000;

function useOf<T>(name: string, columns: string, every?: number): T[] | undefined {
  const chosen = useShared(vhost);
  const rows = usePoll<(T & { vhost?: string })[]>(url([name], { columns }), every).data;
  return useMemo(
    () => (chosen === null ? rows : rows?.filter((one) => (one.vhost ?? chosen) === chosen)),
    [rows, chosen],
  );
}

export function MapPage(): JSX.Element {
  const connections = useOf<Connection>(
    "connections",
    "name,vhost,user,user_provided_name,peer_host,publishes_to",
  );
  const channels = useOf<Channel>("channels", "vhost,connection_details.name,message_stats");
  const exchanges = useOf<Exchange>("exchanges", "name,vhost,type,message_stats");
  const bindings = useOf<Binding>(
    "bindings",
    "source,vhost,destination,destination_type,routing_key",
    SLOW,
  );
  const queues = usePoll<Queue[]>(
    url(["queues"], { columns: "name,vhost,messages_ready,consumers,message_stats" }),
  );
  const consumers = useOf<Consumer>(
    "consumers",
    "consumer_tag,unacknowledged,queue,channel_details",
  );
  const groups = useOf<Group>("groups", "name,vhost,topic,queue,messages,lanes");
  const offsets = useRef(new Map<string, Point[]>());
  const rates = useMemo(() => offsetRates(offsets.current, groups ?? [], Date.now()), [groups]);
  const chosen = useShared(vhost);
  const ready =
    connections && channels && exchanges && bindings && queues.data && consumers && groups;
  return (
    <>
      <PageHead title="Map" />
      <Failure error={queues.error} />
      {!ready && !queues.error && <Loading />}
      {ready && (
        <Drawing
          map={layoutMap({
            connections,
            channels,
            exchanges,
            bindings,
            queues: (queues.data ?? []).filter((one) => chosen === null || one.vhost === chosen),
            consumers: consumers.filter((one) => chosen === null || one.queue.vhost === chosen),
            groups,
            rates,
          })}
        />
      )}
    </>
  );
}

const HEADS = ["Publishers", "Exchanges", "Queues and topics", "Consumers and groups"];

function Drawing(props: { map: ReturnType<typeof layoutMap> }): JSX.Element {
  const { nodes, edges, width, height, omitted } = props.map;
  if (nodes.length === 0) {
    return (
      <Card>
        <Empty title="Nothing to draw yet">
          Queues, exchanges and the programs that use them appear here.
        </Empty>
      </Card>
    );
  }
  const column = (width - 24 + 110) / HEADS.length;
  return (
    <Card>
      <figure class="diagram map" aria-label="Map of publishers, exchanges, queues and consumers">
        <svg viewBox={`0 0 ${width} ${height + 26}`} width={width} height={height + 26}>
          <title>Map</title>
          {HEADS.map((text, at) => (
            <text key={text} class="map-head" x={12 + at * column} y="14">
              {text}
            </text>
          ))}
          <g transform="translate(0 22)">
            {edges.map((edge) => (
              <Edge key={edge.id} edge={edge} />
            ))}
            {nodes.map((one) => (
              <a key={one.id} href={link(one.parts)} class={`node ${one.kind}`}>
                <title>{`${one.kind} ${one.name}`}</title>
                <rect x={one.x} y={one.y} width={BOX.width} height={BOX.height} rx="6" />
                <text x={one.x + 10} y={one.y + 18}>
                  {shortened(one.name, 26)}
                </text>
                <text class="map-note" x={one.x + 10} y={one.y + 35}>
                  {shortened(one.note, 22)}
                </text>
                {one.rate !== null && (
                  <text
                    class="map-rate"
                    x={one.x + BOX.width - 10}
                    y={one.y + 35}
                    text-anchor="end"
                  >
                    {rate(one.rate)}
                  </text>
                )}
              </a>
            ))}
          </g>
        </svg>
      </figure>
      <p class="muted">
        Rates are messages per second. A publisher is drawn when it has published on its connection.
        {omitted > 0 && ` ${plural(omitted, "object")} with lower rates not drawn.`}
      </p>
    </Card>
  );
}

function Edge(props: { edge: MapEdge }): JSX.Element {
  const { from, to, rate: speed } = props.edge;
  const [x1, y1] = [from.x + BOX.width, from.y + BOX.height / 2];
  const [x2, y2] = [to.x, to.y + BOX.height / 2];
  const bend = Math.max(30, (x2 - x1) / 2);
  // From an exchange to an exchange of the same column: around the right side.
  const path =
    x2 > x1
      ? `M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`
      : `M${x1} ${y1} C${x1 + 60} ${y1} ${x1 + 60} ${y2} ${x1} ${y2}`;
  return (
    <path
      class={speed > 0 ? "arrow busy" : "arrow"}
      style={{ strokeWidth: `${1 + Math.min(5, Math.log10(1 + speed))}px` }}
      d={path}
    />
  );
}
