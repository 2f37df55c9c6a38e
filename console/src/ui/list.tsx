/** Table that the broker sorts, filters and pages; only the shown columns are requested. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { load } from "../export";
import { singular, whole } from "../format";
import { updateQuery, useAddress } from "../navigation";
import { usePoll } from "../poll";
import { useShared, vhost } from "../state";
import type { Page } from "../types";
import { url } from "../urls";
import { Failure, Loading } from "./basics";
import { Downloads } from "./downloads";

const SIZE = 50;

export interface Column<T> {
  label: string;
  /** Field by which the broker sorts. */
  sort?: string;
  num?: boolean;
  /** Hidden on narrow screens: 1 on phones, 2 also on tablets. */
  low?: 1 | 2;
  cell: (row: T) => ComponentChildren;
}

interface Props<T> {
  label: string;
  /** ["queues"]: /api/queues, or /api/queues/VHOST when one is chosen. */
  parts: string[];
  global?: boolean; // not part of a vhost
  fields: string;
  columns: Column<T>[];
  id: (row: T) => string;
  empty: ComponentChildren;
  nameFilter?: boolean;
  perVhost?: (vhost: string) => string[];
}

function classOf(column: Pick<Column<unknown>, "num" | "low">): string {
  return [column.num ? "num" : "", column.low ? `low${column.low}` : ""].filter(Boolean).join(" ");
}

export function List<T>(props: Props<T>): JSX.Element {
  const chosen = useShared(vhost);
  const { query } = useAddress();
  const page = Number(query.page ?? 1) || 1;
  const desc = query.desc === "1";
  const within = chosen !== null && !props.global;
  const parts = within ? (props.perVhost?.(chosen) ?? [...props.parts, chosen]) : props.parts;
  const wanted = {
    name: query.name,
    sort: query.sort,
    sort_reverse: query.sort ? desc : undefined,
    columns: props.fields,
  };
  const polled = usePoll<Page<T>>(url(parts, { page, page_size: SIZE, ...wanted }));
  useEffect(() => {
    // The page no longer exists.
    if (polled.error?.code === "page_out_of_range" && page > 1) updateQuery({ page: undefined });
  }, [polled.error]);

  const data = polled.data;
  const rows = data?.items ?? [];
  const order = (column: Column<T>): void => {
    if (!column.sort) return;
    const again = query.sort === column.sort;
    const first = column.num ? "1" : undefined; // numbers: largest first
    updateQuery({
      sort: column.sort,
      desc: again ? (desc ? undefined : "1") : first,
      page: undefined,
    });
  };
  return (
    <section class="card flush" aria-label={props.label}>
      {props.nameFilter !== false && (
        <Filter
          label={props.label}
          value={query.name ?? ""}
          note={data && noteOf(data, props.label)}
        />
      )}
      <Failure error={polled.error} stale={polled.data !== undefined} />
      {!data && !polled.error && <Loading />}
      {data && rows.length === 0 && (
        <div class="pad">
          {query.name ? <p class="muted">No names contain “{query.name}”.</p> : props.empty}
        </div>
      )}
      {rows.length > 0 && (
        <div class="table-box">
          <table aria-label={props.label}>
            <thead>
              <tr>
                {props.columns.map((column) => (
                  <th
                    key={column.label}
                    scope="col"
                    class={classOf(column)}
                    aria-sort={
                      column.sort && query.sort === column.sort
                        ? desc
                          ? "descending"
                          : "ascending"
                        : undefined
                    }
                  >
                    {column.sort ? (
                      <button type="button" class="sorter" onClick={() => order(column)}>
                        {column.label}
                      </button>
                    ) : (
                      column.label
                    )}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={props.id(row)}>
                  {props.columns.map((column) => (
                    <td key={column.label} class={classOf(column)}>
                      {column.cell(row)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {data && data.page_count > 1 && <Pager page={data.page} pages={data.page_count} />}
      {rows.length > 0 && <Downloads label={props.label} rows={() => load(url(parts, wanted))} />}
    </section>
  );
}

function noteOf<T>(data: Page<T>, label: string): string {
  const noun = label.toLowerCase();
  if (data.filtered_count !== data.total_count) {
    return `${whole(data.filtered_count)} of ${whole(data.total_count)}`;
  }
  return `${whole(data.total_count)} ${data.total_count === 1 ? singular(noun) : noun}`;
}

function Filter(props: { label: string; value: string; note?: string }): JSX.Element {
  const [text, setText] = useState(props.value);
  useEffect(() => {
    if (text === props.value) return undefined;
    const timer = setTimeout(() => updateQuery({ name: text || undefined, page: undefined }), 250);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <div class="list-head">
      <input
        type="search"
        aria-label={`Filter ${props.label.toLowerCase()} by name`}
        placeholder="Filter by name"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <span class="muted count">{props.note}</span>
    </div>
  );
}

function Pager(props: { page: number; pages: number }): JSX.Element {
  const to = (page: number): void => updateQuery({ page: page > 1 ? page : undefined });
  return (
    <nav class="pager" aria-label="Pages">
      <button type="button" disabled={props.page <= 1} onClick={() => to(props.page - 1)}>
        ← Previous
      </button>
      <span>
        Page {whole(props.page)} of {whole(props.pages)}
      </span>
      <button type="button" disabled={props.page >= props.pages} onClick={() => to(props.page + 1)}>
        Next →
      </button>
    </nav>
  );
}
