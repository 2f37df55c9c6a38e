/** Keyboard shortcuts; inactive while the focus is in a field or a dialog. */

import { useLayoutEffect, useRef } from "preact/hooks";

import { navigate } from "./navigation";

export const PAGE_SHORTCUTS: Record<string, string> = {
  o: "",
  c: "connections",
  h: "channels",
  e: "exchanges",
  q: "queues",
  d: "deadletters",
  t: "topics",
  w: "route",
  f: "find",
  r: "reports",
  u: "users",
  v: "vhosts",
  p: "policies",
};

const SEQUENCE_MS = 1500; // ms between "g" and the next letter

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("input, textarea, select") !== null;
}

export function useShortcuts(actions: { search: () => void; help: () => void }): void {
  const latest = useRef(actions);
  latest.current = actions;
  useLayoutEffect(() => {
    let leader = -Infinity;
    const pressed = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector("dialog[open]")) return;
      const follows = event.timeStamp - leader < SEQUENCE_MS;
      leader = -Infinity;
      if (event.key === "/") latest.current.search();
      else if (event.key === "?") latest.current.help();
      else if (event.key === "g") leader = event.timeStamp;
      else if (follows && event.key in PAGE_SHORTCUTS)
        navigate([PAGE_SHORTCUTS[event.key]].filter(Boolean));
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}
