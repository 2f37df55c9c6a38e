/** Search over all named objects and pages. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { get } from "../api";
import { exchangeName } from "../format";
import { entries } from "../menu";
import { PAGE_SHORTCUTS } from "../shortcuts";
import { has, may } from "../state";
import { link, url } from "../urls";
import { Dialog } from "./dialog";

interface Hit {
  kind: string;
  name: string;
  note: string;
  href: string;
}

interface Named {
  name: string;
  vhost?: string;
  user_provided_name?: string;
}

const EACH = 6;

async function named(kind: string, text: string, signal: AbortSignal): Promise<Named[]> {
  const columns = kind === "connections" ? "name,user_provided_name" : "name,vhost";
  const query = { page: 1, page_size: EACH, name: text, columns };
  const found = await get<{ items: Named[] } | Named[]>(url([kind], query), signal);
  const items = Array.isArray(found) ? found : found.items;
  return items.filter((one) => one.name.toLowerCase().includes(text.toLowerCase())).slice(0, EACH);
}

function hitOf(kind: string, one: Named): Hit {
  const path = one.vhost === undefined ? [kind, one.name] : [kind, one.vhost, one.name];
  return {
    kind: kind.replace(/s$/, ""),
    name: kind === "exchanges" ? exchangeName(one.name) : one.name,
    note: one.user_provided_name ?? one.vhost ?? "",
    href: link(path),
  };
}

async function search(text: string, signal: AbortSignal): Promise<Hit[]> {
  const pages = entries()
    .filter((one) => one.label.toLowerCase().includes(text.toLowerCase()))
    .map((one) => ({
      kind: "page",
      name: one.label,
      note: "",
      href: link([one.id].filter(Boolean)),
    }));
  if (text === "") return pages;
  const kinds = ["queues", "exchanges", "connections", "vhosts"];
  if (has("/api/topics")) kinds.push("topics");
  if (may("administrator")) kinds.push("users");
  const found = await Promise.all(
    kinds.map((kind) =>
      named(kind, text, signal).then(
        (items) => items.map((one) => hitOf(kind, one)),
        () => [],
      ),
    ),
  );
  return [...found.flat(), ...pages];
}

export function Search(props: { onClose: () => void }): JSX.Element {
  const [text, setText] = useState("");
  const [hits, setHits] = useState<Hit[]>([]);
  const [at, setAt] = useState(0);
  const list = useRef<HTMLDivElement>(null);

  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(
      () => {
        void search(text.trim(), abort.signal).then((found) => {
          if (abort.signal.aborted) return;
          setHits(found);
          setAt(0);
        });
      },
      text ? 150 : 0,
    );
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text]);
  useEffect(() => list.current?.children[at]?.scrollIntoView({ block: "nearest" }), [at]);

  const open = (hit: Hit | undefined): void => {
    if (!hit) return;
    props.onClose();
    location.hash = hit.href;
  };
  const pressed = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") setAt(Math.min(at + 1, hits.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
    else if (event.key === "Enter") open(hits[at]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Search" onClose={props.onClose}>
      <input
        type="text"
        autofocus
        class="search-input"
        role="combobox"
        aria-label="Search queues, exchanges, connections, pages"
        aria-expanded="true"
        aria-controls="hits"
        aria-activedescendant={hits[at] ? `hit-${at}` : undefined}
        placeholder="Queue, exchange, connection, user or page"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={pressed}
      />
      <div id="hits" class="hits" role="listbox" aria-label="Results" ref={list}>
        {hits.map((hit, index) => (
          <a
            key={hit.href}
            id={`hit-${index}`}
            href={hit.href}
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            onMouseMove={() => setAt(index)}
            onClick={props.onClose}
          >
            <span class="hit-kind">{hit.kind}</span>
            <span class="hit-name">{hit.name}</span>
            <span class="hit-note">{hit.note}</span>
          </a>
        ))}
      </div>
      {hits.length === 0 && text !== "" && <p class="muted">No name contains “{text}”.</p>}
    </Dialog>
  );
}

export function ShortcutHelp(props: { onClose: () => void }): JSX.Element {
  const labels = new Map(entries().map((one) => [one.id, one.label]));
  const rows = Object.entries(PAGE_SHORTCUTS).filter(([, id]) => labels.has(id));
  return (
    <Dialog title="Keyboard shortcuts" onClose={props.onClose}>
      <dl class="keys">
        <div>
          <dt>
            <kbd>/</kbd>
          </dt>
          <dd>Search</dd>
        </div>
        {rows.map(([key, id]) => (
          <div key={key}>
            <dt>
              <kbd>g</kbd> <kbd>{key}</kbd>
            </dt>
            <dd>{labels.get(id)}</dd>
          </div>
        ))}
        <div>
          <dt>
            <kbd>Esc</kbd>
          </dt>
          <dd>Close dialog</dd>
        </div>
      </dl>
    </Dialog>
  );
}
