/** Spark pipelines that report to the broker. */

import type { JSX } from "preact";

import { useMemo } from "preact/hooks";

import { ago, compact, duration, rate, whole } from "../format";
import { usePoll } from "../poll";
import { useShared, vhost } from "../state";
import type { Pipeline } from "../types";
import { Badge, Card, Empty, Facts, Loaded, PageHead, Rows, type Tone } from "../ui/basics";
import { Chart } from "../ui/chart";
import { url } from "../urls";

const SILENT = 60_000; // ms without a report from a running pipeline

const ENDED = new Set(["finished", "stopped", "failed"]);

function stateOf(one: Pipeline): [string, Tone] {
  if (one.state === "failed" || one.error) return [one.state ?? "failed", "bad"];
  if (one.state === "running") {
    return one.silent_ms > SILENT
      ? [`no report for ${duration(one.silent_ms / 1000)}`, "warn"]
      : ["running", "good"];
  }
  return [one.state ?? "unknown", "plain"];
}

export function PipelinesPage(): JSX.Element {
  const chosen = useShared(vhost);
  const polled = usePoll<Pipeline[]>(url(chosen === null ? ["pipelines"] : ["pipelines", chosen]));
  return (
    <>
      <PageHead title="Pipelines" />
      <Loaded polled={polled}>
        {(rows) =>
          rows.length === 0 ? (
            <Card>
              <Empty title="No pipelines">
                Pipelines started with <code>headrace pipeline run FILE</code> are listed while they
                run and for one day afterwards.
              </Empty>
            </Card>
          ) : (
            rows.map((one) => <PipelineCard key={`${one.vhost} ${one.name}`} one={one} />)
          )
        }
      </Loaded>
    </>
  );
}

/** What it did during the last ten minutes of reports. */
function Charts(props: { one: Pipeline }): JSX.Element | null {
  const { history } = props.one;
  const column = (at: number) => history.map((row) => ({ at: row[0], value: row[at] }));
  const series = useMemo(() => [1, 2, 3, 4].map(column), [history]);
  if (history.length < 2) return null;
  const [read, processed, lag, batch] = series;
  return (
    <div class="charts three">
      <Chart
        title="Rows"
        format={rate}
        series={[
          { label: "read", color: "--c1", points: read },
          { label: "processed", color: "--c2", points: processed },
        ]}
      />
      <Chart
        title="Lag"
        format={compact}
        series={[{ label: "messages", color: "--c4", points: lag, fill: true }]}
      />
      <Chart
        title="Batch duration"
        format={(ms) => duration((ms ?? 0) / 1000)}
        series={[{ label: "batch", color: "--c5", points: batch }]}
      />
    </div>
  );
}

function PipelineCard(props: { one: Pipeline }): JSX.Element {
  const { one } = props;
  const [state, tone] = stateOf(one);
  const queries = one.queries ?? [];
  return (
    <Card title={one.name} side={<Badge tone={tone}>{state}</Badge>}>
      <div class="stack">
        {one.error && <p class="failure">{one.error}</p>}
        <Facts
          rows={[
            ["Rows", rate(queries.reduce((sum, query) => sum + query.rows_per_second, 0))],
            ["Lag", `${whole(Math.max(0, ...queries.map((query) => query.lag)))} messages`],
            ["Bad records", whole(one.bad_records ?? 0)],
            ["Vhost", one.vhost],
            ["Started", one.started_at ? ago(Date.parse(one.started_at), Date.now()) : "–"],
            [
              ENDED.has(one.state ?? "") ? "Ended" : "Last report",
              `${duration(one.silent_ms / 1000)} ago`,
            ],
            ["Runs on", `${one.host ?? "?"}, ${one.master ?? "?"}, PID ${one.pid ?? "?"}`],
            ["File", one.file ?? "–"],
          ]}
        />
        <Charts one={one} />
        {one.last_bad && one.last_bad.length > 0 && (
          <Rows
            label={`Last bad records of ${one.name}`}
            head={["Source", ["Offset", "num"], "Reason", "Body", "Found"]}
            rows={one.last_bad}
            id={(bad) => `${bad.source} ${bad.partition} ${bad.offset}`}
            cells={(bad) => [
              bad.source,
              whole(bad.offset),
              bad.reason,
              <code>{bad.body}</code>,
              ago(Date.parse(bad.found_at), Date.now()),
            ]}
          />
        )}
        {queries.length > 0 ? (
          <Rows
            label={`Queries of ${one.name}`}
            head={[
              "Sink",
              ["Rows/s", "num"],
              ["Rows", "num"],
              ["Lag", "num"],
              ["Batch", "num low"],
              ["Batch duration", "num low"],
              ["Late rows", "num low"],
            ]}
            rows={queries}
            id={(query) => query.sink}
            cells={(query) => [
              query.sink,
              rate(query.rows_per_second),
              whole(query.rows),
              whole(query.lag),
              query.batch < 0 ? "–" : whole(query.batch),
              `${whole(query.batch_ms)} ms`,
              whole(query.late_rows),
            ]}
          />
        ) : (
          <p class="muted">No queries started.</p>
        )}
      </div>
    </Card>
  );
}
