/** One exchange: its bindings as a picture and as a table, publishing, deleting. */

import type { JSX } from "preact";

import { del } from "../api";
import { exchangeName, rate, whole } from "../format";
import { go } from "../place";
import { usePoll } from "../poll";
import { exchangePart, url } from "../route";
import { type Binding, countOf, type Exchange, rateOf } from "../types";
import { Badge, Card, Empty, Facts, Fold, PageHead, Ready, Values } from "../ui/basics";
import { BindForm, BindingRows } from "../ui/bindings";
import { confirmed } from "../ui/dialog";
import { attempt } from "../ui/notices";
import { BindingPicture } from "../ui/picture";
import { PublishForm } from "../ui/publish";

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
    const sure = await confirmed({
      title: "Delete this exchange?",
      text: "Its bindings go with it. Publishers that use it get an error.",
      action: "Delete exchange",
      typed: props.name,
    });
    if (sure && (await attempt(() => del(url(path)), "The exchange is deleted.")))
      go(["exchanges"]);
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
      <Ready polled={polled}>{(one) => <ExchangeFacts one={one} />}</Ready>
      <Card title="Where messages go">
        {bindings.length > 0 ? (
          <BindingPicture
            vhost={props.vhost}
            bindings={bindings}
            focus={`exchange:${props.name}`}
          />
        ) : (
          <Empty title="No bindings yet">
            {props.name === ""
              ? "Every queue is reached by its name as soon as there is one."
              : "What is published here goes nowhere. Bind a queue below."}
          </Empty>
        )}
      </Card>
      <Card title="Bindings that begin here" flush>
        <Ready polled={from}>
          {(rows) => (
            <BindingRows bindings={rows} side="destination" onChange={changed} empty="None" />
          )}
        </Ready>
        {props.name !== "" && (
          <div class="pad">
            <BindForm vhost={props.vhost} from={props.name} onDone={changed} />
          </div>
        )}
      </Card>
      {(to.data?.length ?? 0) > 0 && (
        <Card title="Bindings that lead here" flush>
          <BindingRows bindings={to.data ?? []} side="source" onChange={changed} empty="None" />
        </Card>
      )}
      {!polled.data?.internal && (
        <Fold title="Publish a message">
          <PublishForm vhost={props.vhost} exchange={props.name} />
        </Fold>
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
          ["Kept", one.durable ? "durable" : "transient"],
          ["Policy", one.policy ?? "none"],
          [
            "In",
            `${rate(rateOf(stats, "publish_in") ?? 0)}, ${whole(countOf(stats, "publish_in"))} so far`,
          ],
          [
            "Out",
            `${rate(rateOf(stats, "publish_out") ?? 0)}, ${whole(countOf(stats, "publish_out"))} so far`,
          ],
          ["Arguments", <Values of={one.arguments} />],
        ]}
      />
    </Card>
  );
}
