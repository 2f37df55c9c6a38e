/** Reports that `headrace report --keep-as NAME` left in the broker: tables and charts. */

import type { JSX } from "preact";

import { del } from "../api";
import { ago, compact, moment, plural } from "../format";
import { go } from "../place";
import { usePoll } from "../poll";
import { link, url } from "../route";
import type { Point } from "../series";
import { useShared, vhost } from "../state";
import type { KeptReport, ReportRow } from "../types";
import { Card, Empty, Facts, PageHead, Ready, Rows } from "../ui/basics";
import { Chart } from "../ui/chart";
import { confirmed } from "../ui/dialog";
import { attempt } from "../ui/notices";

const COLORS = ["--c1", "--c2", "--c3", "--c4", "--c5"];

/** On the page of reports: those that are kept. */
export function KeptReports(): JSX.Element {
  const chosen = useShared(vhost);
  const path = url(chosen === null ? ["reports"] : ["reports", chosen]);
  const polled = usePoll<ReportRow[]>(path, 30_000);
  return (
    <Card title="From Spark, over time" flush>
      <Ready polled={polled}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty title="No report is kept">
              The charts above tell of now. Latency percentiles, steps of time and routing keys over
              days are found by <code>headrace report --keep-as daily</code>, and shown here.
            </Empty>
          ) : (
            <Rows
              label="Kept reports"
              head={["Report", "From", "To", ["Made", "low"], ["Holds", "low"]]}
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
      </Ready>
    </Card>
  );
}

export function ReportPage(props: { vhost: string; name: string }): JSX.Element {
  const path = url(["reports", props.vhost, props.name]);
  const polled = usePoll<KeptReport>(path, 60_000);
  const forget = async (): Promise<void> => {
    const sure = await confirmed({
      title: "Forget the report?",
      text: `${props.name} is gone then; headrace report can make it again.`,
      action: "Forget report",
    });
    if (sure && (await attempt(() => del(path), "The report is forgotten."))) go(["reports"]);
  };
  return (
    <>
      <PageHead kind="Report" title={props.name}>
        <button type="button" class="danger" onClick={() => void forget()}>
          Forget…
        </button>
      </PageHead>
      <Ready polled={polled}>{(report) => <Report report={report} />}</Ready>
    </>
  );
}

function Report(props: { report: KeptReport }): JSX.Element {
  const { report } = props;
  return (
    <>
      <Card>
        <div class="stack">
          <Facts
            rows={[
              ["From", moment(Date.parse(report.from))],
              ["To", moment(Date.parse(report.to))],
              ["Steps", report.window || "–"],
              ["Vhost", report.vhost],
              ["Made", ago(report.made_at, Date.now())],
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
              nothing="Nothing in this period."
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
            <Empty title="Nothing in this period." />
          ) : (
            <Rows
              label={table.title}
              head={table.columns.map((name, index): string | [string, string] =>
                table.rows.every((row) => typeof row[index] !== "string") ? [name, "num"] : name,
              )}
              rows={table.rows.map((row, index) => ({ row, index }))}
              id={(one) => String(one.index)}
              cells={(one) => one.row.map(shown)}
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
