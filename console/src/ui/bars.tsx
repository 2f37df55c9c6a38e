/** Horizontal bar chart. */

import type { ComponentChildren, JSX } from "preact";

export interface BarRow {
  label: string;
  note?: ComponentChildren;
  href?: string;
  value: number;
}

export function Bars(props: { rows: BarRow[]; format: (value: number) => string }): JSX.Element {
  const largest = Math.max(...props.rows.map((row) => row.value), 1e-9);
  return (
    <ul class="bars">
      {props.rows.map((row, index) => (
        <li key={index}>
          <span class="bar-label">
            {row.href ? <a href={row.href}>{row.label}</a> : row.label}{" "}
            {row.note && <small>{row.note}</small>}
          </span>
          <span class="bar-value">{props.format(row.value)}</span>
          <svg class="bar-track" aria-hidden="true" preserveAspectRatio="none" viewBox="0 0 100 1">
            <rect class="bar-fill" width={(row.value / largest) * 100} height="1" />
          </svg>
        </li>
      ))}
    </ul>
  );
}
