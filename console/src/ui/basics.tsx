/** Basic components. */

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";

import { ApiError } from "../api";
import { whole } from "../format";
import { Downloads } from "./downloads";

export function Card(props: {
  title?: ComponentChildren;
  side?: ComponentChildren;
  children: ComponentChildren;
  wide?: boolean;
  flush?: boolean;
}): JSX.Element {
  return (
    <section class={`card${props.wide ? " wide" : ""}${props.flush ? " flush" : ""}`}>
      {(props.title || props.side) && (
        <header>
          <h2>{props.title}</h2>
          {props.side && <div class="side">{props.side}</div>}
        </header>
      )}
      {props.children}
    </section>
  );
}

export function PageHead(props: {
  title: ComponentChildren;
  kind?: string;
  children?: ComponentChildren;
}): JSX.Element {
  return (
    <div class="page-head">
      <h1>
        {props.kind && <span class="kind">{props.kind}</span>}
        <span class="name">{props.title}</span>
      </h1>
      {props.children && <div class="actions">{props.children}</div>}
    </div>
  );
}

export type Tone = "plain" | "good" | "warn" | "bad" | "info";

export function Badge(props: {
  children: ComponentChildren;
  tone?: Tone;
  title?: string;
}): JSX.Element {
  return (
    <span class={`badge ${props.tone ?? "plain"}`} title={props.title}>
      {props.children}
    </span>
  );
}

/** Empty state: what it means and what to do next. */
export function Empty(props: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <strong>{props.title}</strong>
      {props.children && <div>{props.children}</div>}
    </div>
  );
}

/** `stale`: older data is still shown below. */
export function Failure(props: {
  error: ApiError | Error | undefined;
  stale?: boolean;
}): JSX.Element | null {
  const { error } = props;
  if (!error) return null;
  const gone = error instanceof ApiError && error.status === 404;
  return (
    <p class="failure" role="alert">
      {gone ? "Not found. It may have been deleted." : error.message}
      {props.stale && " The data below is out of date."}
    </p>
  );
}

export function Loading(): JSX.Element {
  return (
    <p class="loading" role="status">
      Loading…
    </p>
  );
}

/** The data, or the error, or a loading indicator. */
export function Loaded<T>(props: {
  polled: { data: T | undefined; error: ApiError | undefined };
  children: (data: T) => ComponentChildren;
}): JSX.Element {
  const { data, error } = props.polled;
  if (data === undefined) return error ? <Failure error={error} /> : <Loading />;
  return (
    <>
      <Failure error={error} stale />
      {props.children(data)}
    </>
  );
}

export function Stat(props: {
  label: string;
  value: ComponentChildren;
  note?: ComponentChildren;
  href?: string;
}): JSX.Element {
  const inside = (
    <>
      <span class="label">{props.label}</span>
      <span class="value">{props.value}</span>
      {props.note !== undefined && <span class="note">{props.note}</span>}
    </>
  );
  return props.href ? (
    <a class="figure" href={props.href}>
      {inside}
    </a>
  ) : (
    <div class="figure">{inside}</div>
  );
}

/** List of names and values. */
export function Facts(props: { rows: [string, ComponentChildren][] }): JSX.Element {
  return (
    <dl class="facts">
      {props.rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** An object as names and values. */
export function Values(props: { of: Record<string, unknown>; none?: string }): JSX.Element {
  const entries = Object.entries(props.of);
  if (entries.length === 0) return <span class="muted">{props.none ?? "none"}</span>;
  return (
    <dl class="values">
      {entries.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{typeof value === "string" && value !== "" ? value : JSON.stringify(value)}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Bar(props: {
  value: number;
  limit: number;
  tone?: Tone;
  label: string;
}): JSX.Element {
  const share = props.limit > 0 ? Math.min(1, props.value / props.limit) : 0;
  const tone = props.tone ?? (share > 0.9 ? "bad" : share > 0.7 ? "warn" : "good");
  return (
    <meter class={`bar ${tone}`} min={0} max={1} value={share} aria-label={props.label}>
      {whole(share * 100)}%
    </meter>
  );
}

export interface Tab {
  id: string;
  label: ComponentChildren;
  href: string;
}

export function Tabs(props: { tabs: Tab[]; current: string }): JSX.Element {
  return (
    <nav class="tabs" aria-label="Sections">
      {props.tabs.map((tab) => (
        <a
          key={tab.id}
          href={tab.href}
          aria-current={tab.id === props.current ? "page" : undefined}
        >
          {tab.label}
        </a>
      ))}
    </nav>
  );
}

/** Table for short lists without paging; `plain` has no downloads. */
export function Rows<T>(props: {
  label: string;
  plain?: boolean;
  head: (string | [string, string])[]; // [label, class]: "num", "word" (not wrapped), "low" (hidden on phones)
  rows: readonly T[];
  id: (row: T) => string;
  cells: (row: T) => ComponentChildren[];
}): JSX.Element {
  const classes = props.head.map((one) => (typeof one === "string" ? undefined : one[1]));
  const rows = props.rows as readonly Record<string, unknown>[];
  return (
    <>
      <div class="table-box">
        <table aria-label={props.label}>
          <thead>
            <tr>
              {props.head.map((one, index) => (
                <th key={index} scope="col" class={classes[index]}>
                  {typeof one === "string" ? one : one[0]}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {props.rows.map((row) => (
              <tr key={props.id(row)}>
                {props.cells(row).map((cell, index) => (
                  <td key={index} class={classes[index]}>
                    {cell}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {!props.plain && <Downloads label={props.label} rows={() => rows} />}
    </>
  );
}

/** Section that is closed at first. */
export function Collapsible(props: {
  title: string;
  open?: boolean;
  children: ComponentChildren;
}): JSX.Element {
  const [open, setOpen] = useState(props.open ?? false);
  return (
    <details class="card fold" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{props.title}</summary>
      {open && <div class="fold-body">{props.children}</div>}
    </details>
  );
}
