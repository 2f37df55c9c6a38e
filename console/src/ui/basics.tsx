/** Small parts that every page is made of. */

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";

import { ApiError } from "../api";
import { whole } from "../format";

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

/** Nothing here: what it means and what to do next. */
export function Empty(props: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <strong>{props.title}</strong>
      {props.children && <div>{props.children}</div>}
    </div>
  );
}

/** `stale` is what to say of what is still shown below. */
export function Failure(props: {
  error: ApiError | Error | undefined;
  stale?: boolean;
}): JSX.Element | null {
  const { error } = props;
  if (!error) return null;
  const gone = error instanceof ApiError && error.status === 404;
  return (
    <p class="failure" role="alert">
      {gone ? "This is not there, or not any more." : error.message}
      {props.stale && " What you see below is from before."}
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

/** The data when it is there; what is wrong, or that it is on its way, when not. */
export function Ready<T>(props: {
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

export function Figure(props: {
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

/** Names and values, one under the other. */
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

/** An object of any shape as text. */
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
    <nav class="tabs" aria-label="Parts of this page">
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

/** A plain table for short lists that need no paging. */
export function Rows<T>(props: {
  label: string;
  head: (string | [string, string])[]; // [label, class]: "num", "word" (stays whole), "low" (hidden on phones)
  rows: readonly T[];
  id: (row: T) => string;
  cells: (row: T) => ComponentChildren[];
}): JSX.Element {
  const classes = props.head.map((one) => (typeof one === "string" ? undefined : one[1]));
  return (
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
  );
}

/** Something that is mostly not needed. */
export function Fold(props: {
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
