/** Time series chart. */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";

import { aligned, type Point } from "../series";
import { usePalette } from "../state";

export interface Series {
  label: string;
  points: readonly Point[];
  /** A variable of the style sheet. */
  color: string;
  fill?: boolean;
}

interface Props {
  title: string;
  series: Series[];
  format: (value: number | null | undefined) => string;
  /** Text shown instead of an empty chart. */
  nothing?: string;
  height?: number;
  /** Steps of the axis are those of bytes. */
  binary?: boolean;
}

const LEAST_SECONDS = 60; // minimum range of the time axis
const BINARY = Array.from({ length: 50 }, (_, power) => 2 ** power);

function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function options(
  props: Props,
  width: number,
  onCursor: (at: number | null) => void,
): uPlot.Options {
  const grid = { stroke: color("--line"), width: 1 };
  const axis = {
    stroke: color("--muted"),
    font: `11px ${color("--font")}`,
    ticks: { show: false },
  };
  return {
    width,
    height: props.height ?? 170,
    legend: { show: false },
    padding: [10, 28, 0, 0],
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    scales: {
      x: { time: true, range: (_, from, to) => [Math.min(from, to - LEAST_SECONDS), to] },
      y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.1 : 1] },
    },
    axes: [
      { ...axis, grid: { show: false }, space: 80, size: 24, values: clock },
      {
        ...axis,
        grid,
        size: 68,
        space: 36,
        ...(props.binary ? { incrs: BINARY } : {}),
        values: (_, splits) => splits.map((value) => props.format(value)),
      },
    ],
    series: [
      {},
      ...props.series.map((one) => ({
        label: one.label,
        stroke: color(one.color),
        width: 1.75,
        fill: one.fill ? `${color(one.color)}22` : undefined,
        points: { show: one.points.filter((point) => point.value !== null).length < 3, size: 5 },
      })),
    ],
    hooks: { setCursor: [(chart) => onCursor(chart.cursor.idx ?? null)] },
  } as uPlot.Options;
}

/** uPlot would stretch a single point over a whole day. */
function wide(columns: (number | null)[][]): (number | null)[][] {
  const [times, ...values] = columns;
  const at = times?.length === 1 ? times[0] : null;
  if (at === null) return columns;
  return [[at - LEAST_SECONDS, at], ...values.map((column) => [null, ...column])];
}

function clock(_: uPlot, splits: number[]): string[] {
  const step = splits.length > 1 ? splits[1] - splits[0] : 60;
  const days = splits.length > 1 && splits[splits.length - 1] - splits[0] >= 86_400;
  return splits.map((at) => {
    const date = new Date(at * 1000);
    const text = date.toTimeString();
    if (days) return `${date.getMonth() + 1}/${date.getDate()} ${text.slice(0, 5)}`;
    return step < 60 ? text.slice(0, 8) : text.slice(0, 5);
  });
}

export function Chart(props: Props): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const palette = usePalette();
  const data = useMemo(() => wide(aligned(props.series.map((one) => one.points))), [props.series]);
  const filled = data.slice(1).some((column) => column.some((value) => value !== null));
  const shape = props.series.map((one) => one.label).join();
  const few = data[0].length < 3;

  useEffect(() => {
    const element = box.current;
    if (!element || !filled) return undefined;
    const plot = new uPlot(
      options(props, element.clientWidth, setCursor),
      data as uPlot.AlignedData,
      element,
    );
    chart.current = plot;
    const watcher = new ResizeObserver(() => {
      if (element.clientWidth > 0 && element.clientWidth !== plot.width) {
        plot.setSize({ width: element.clientWidth, height: props.height ?? 170 });
      }
    });
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      plot.destroy();
      chart.current = null;
    };
  }, [palette, filled, shape, few]);

  useEffect(() => chart.current?.setData(data as uPlot.AlignedData), [data]);

  return (
    <figure class="chart" aria-label={props.title}>
      <figcaption>
        <span class="chart-title">{props.title}</span>
        <span class="legend">
          {props.series.map((one, index) => (
            <span key={one.label} class="entry">
              <i class={`swatch ${one.color.slice(2)}`} />
              {one.label} <b>{props.format(shownValue(data[index + 1], cursor))}</b>
            </span>
          ))}
        </span>
      </figcaption>
      {filled ? (
        <div ref={box} class="plot" role="img" aria-label={`${props.title}, over time`} />
      ) : (
        <div class="plot nothing">{props.nothing ?? "Waiting for data…"}</div>
      )}
    </figure>
  );
}

function shownValue(column: (number | null)[], cursor: number | null): number | null {
  if (cursor !== null && cursor < column.length) return column[cursor] ?? null;
  for (let index = column.length - 1; index >= 0; index -= 1) {
    const value = column[index];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}
