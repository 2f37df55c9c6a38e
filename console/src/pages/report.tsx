/** Reports saved by `headrace report --keep-as NAME`. */

import type { JSX } from "preact";

import { del } from "../api";
import { ago, compact, moment, plural } from "../format";
import { navigate } from "../navigation";
import { usePoll } from "../poll";
import type { Point } from "../series";
import { useShared, vhost } from "../state";
import type { ReportRow, SavedReport } from "../types";
import { Card, Empty, Facts, Loaded, PageHead, Rows } from "../ui/basics";
import { Chart } from "../ui/chart";
import { confirmAction } from "../ui/dialog";
import { attempt } from "../ui/notices";
import { link, url } from "../urls";

const COLORS = ["--c1", "--c2", "--c3", "--c4", "--c5"];

/** List of saved reports. */
export function SavedReports(): JSX.Element {
  const chosen = useShared(vhost);
  const path = url(chosen === null ? ["reports"] : ["reports", chosen]);
  const polled = usePoll<ReportRow[]>(path, 30_000);
  return (
    <Card title="Spark reports" flush>
      <Loaded polled={polled}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty title="No saved reports">
              The charts above show the current state. <code>headrace report --keep-as daily</code>{" "}
              computes latency percentiles, time windows and routing keys over days and saves them
              here.
            </Empty>
          ) : (
            <Rows
              label="Saved reports"
              head={["Report", "From", "To", ["Created", "low"], ["Contents", "low"]]}
              rows={rows}
              id={(one) => `${one.vhost} ${one.name}`}
              cells={(one) => [
                <a href={link(["reports", one.vhost, one.name])}>{one.name}</a>,
                moment(Date.parse(one.from)),
                moment(Date.parse(one.to)),
                ago(one.made_at, Date.now()),
                `${plural(one.tables.length, "table")}, ${plural(one.charts.length, "chart")}`,
              ]}
            />
          )
        }
      </Loaded>
    </Card>
  );
}

export function ReportPage(props: { vhost: string; name: string }): JSX.Element {
  const path = url(["reports", props.vhost, props.name]);
  const polled = usePoll<SavedReport>(path, 60_000);
  const remove = async (): Promise<void> => {
    const sure = await confirmAction({
      title: "Delete this report?",
      text: "headrace report can create it again.",
      action: "Delete report",
    });
    if (sure && (await attempt(() => del(path), "Report deleted."))) navigate(["reports"]);
  };
  return (
    <>
      <PageHead kind="Report" title={props.name}>
        <button type="button" class="danger" onClick={() => void remove()}>
          Delete…
        </button>
      </PageHead>
      <Loaded polled={polled}>{(report) => <Report report={report} />}</Loaded>
    </>
  );
}

function Report(props: { report: SavedReport }): JSX.Element {
  const { report } = props;
  return (
    <>
      <Card>
        <div class="stack">
          <Facts
            rows={[
              ["From", moment(Date.parse(report.from))],
              ["To", moment(Date.parse(report.to))],
              ["Window", report.window || "–"],
              ["Vhost", report.vhost],
              ["Created", ago(report.made_at, Date.now())],
            ]}
          />
          {report.notes.map((note) => (
            <p key={note} class="muted">
              {note}
            </p>
          ))}
        </div>
      </Card>
      <div class="columns">
        {report.charts.map((chart) => (
          <Card key={chart.title}>
            <Chart
              title={chart.unit ? `${chart.title}, ${chart.unit}` : chart.title}
              format={compact}
              nothing="No data in this period."
              series={Object.entries(chart.lines).map(([label, line], index) => ({
                label,
                color: COLORS[index % COLORS.length],
                points: line.map(([at, value]): Point => ({ at: Date.parse(at), value })),
              }))}
            />
          </Card>
        ))}
      </div>
      {report.tables.map((table) => (
        <Card key={table.title} title={table.title} flush={table.rows.length > 0}>
          {table.rows.length === 0 ? (
            <Empty title="No data in this period." />
          ) : (
            <Rows
              label={table.title}
              head={table.columns.map((name, index): string | [string, string] =>
                table.rows.every((row) => typeof row[index] !== "string") ? [name, "num"] : name,
              )}
              rows={table.rows.map(
                (row, index): Record<string, unknown> => ({
                  row: index + 1,
                  ...Object.fromEntries(table.columns.map((name, at) => [name, row[at]])),
                }),
              )}
              id={(one) => String(one.row)}
              cells={(one) => table.columns.map((name) => shown(one[name]))}
            />
          )}
          {table.note && <p class={table.rows.length > 0 ? "muted pad" : "muted"}>{table.note}</p>}
        </Card>
      ))}
    </>
  );
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") {
    return Number.isInteger(value)
      ? value.toLocaleString("en")
      : value.toLocaleString("en", { maximumFractionDigits: 3 });
  }
  return typeof value === "string" ? value : JSON.stringify(value);
}
