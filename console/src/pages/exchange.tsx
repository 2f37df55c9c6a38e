/** One exchange: bindings, publishing, deletion. */

import type { JSX } from "preact";

import { del } from "../api";
import { exchangeName, rate, whole } from "../format";
import { navigate } from "../navigation";
import { usePoll } from "../poll";
import { type Binding, countOf, type Exchange, rateOf } from "../types";
import { Badge, Card, Collapsible, Empty, Facts, Loaded, PageHead, Values } from "../ui/basics";
import { BindForm, BindingRows } from "../ui/bindings";
import { BindingDiagram } from "../ui/diagram";
import { confirmAction } from "../ui/dialog";
import { attempt } from "../ui/notices";
import { PublishForm } from "../ui/publish";
import { exchangePart, url } from "../urls";

export function ExchangePage(props: { vhost: string; name: string }): JSX.Element {
  const path = ["exchanges", props.vhost, exchangePart(props.name)];
  const polled = usePoll<Exchange>(url(path));
  const from = usePoll<Binding[]>(url([...path, "bindings", "source"]), 10_000);
  const to = usePoll<Binding[]>(url([...path, "bindings", "destination"]), 10_000);
  const changed = (): void => {
    from.refresh();
    to.refresh();
  };
  const builtIn = props.name === "" || props.name.startsWith("amq.");
  const remove = async (): Promise<void> => {
    const sure = await confirmAction({
      title: "Delete this exchange?",
      text: "Its bindings are deleted too. Publishing to it fails afterwards.",
      action: "Delete exchange",
      typed: props.name,
    });
    if (sure && (await attempt(() => del(url(path)), "Exchange deleted."))) navigate(["exchanges"]);
  };
  const bindings = [...(to.data ?? []), ...(from.data ?? [])];
  return (
    <>
      <PageHead kind="Exchange" title={exchangeName(props.name)}>
        {!builtIn && (
          <button type="button" class="danger" onClick={() => void remove()}>
            Delete…
          </button>
        )}
      </PageHead>
      <Loaded polled={polled}>{(one) => <ExchangeFacts one={one} />}</Loaded>
      <Card title="Binding diagram">
        {bindings.length > 0 ? (
          <BindingDiagram
            vhost={props.vhost}
            bindings={bindings}
            focus={`exchange:${props.name}`}
          />
        ) : (
          <Empty title="No bindings yet">
            {props.name === ""
              ? "The default exchange routes to every queue by its name."
              : "Messages published to this exchange are not routed. Bind a queue below."}
          </Empty>
        )}
      </Card>
      <Card title="Outgoing bindings" flush>
        <Loaded polled={from}>
          {(rows) => (
            <BindingRows
              bindings={rows}
              side="destination"
              onChange={changed}
              empty="No bindings"
            />
          )}
        </Loaded>
        {props.name !== "" && (
          <div class="pad">
            <BindForm vhost={props.vhost} from={props.name} onDone={changed} />
          </div>
        )}
      </Card>
      {(to.data?.length ?? 0) > 0 && (
        <Card title="Incoming bindings" flush>
          <BindingRows
            bindings={to.data ?? []}
            side="source"
            onChange={changed}
            empty="No bindings"
          />
        </Card>
      )}
      {!polled.data?.internal && (
        <Collapsible title="Publish a message">
          <PublishForm vhost={props.vhost} exchange={props.name} />
        </Collapsible>
      )}
    </>
  );
}

function ExchangeFacts(props: { one: Exchange }): JSX.Element {
  const { one } = props;
  const stats = one.message_stats;
  return (
    <Card>
      <Facts
        rows={[
          ["Type", <Badge tone="info">{one.type}</Badge>],
          ["Vhost", one.vhost],
          ["Durability", one.durable ? "durable" : "transient"],
          ["Policy", one.policy ?? "none"],
          [
            "In",
            `${rate(rateOf(stats, "publish_in") ?? 0)}, ${whole(countOf(stats, "publish_in"))} total`,
          ],
          [
            "Out",
            `${rate(rateOf(stats, "publish_out") ?? 0)}, ${whole(countOf(stats, "publish_out"))} total`,
          ],
          ["Arguments", <Values of={one.arguments} />],
        ]}
      />
    </Card>
  );
}
