/** Shared state: session, features of the broker, settings of the user. */

import { useEffect, useLayoutEffect, useState } from "preact/hooks";

export class Shared<T> {
  private readonly listeners = new Set<() => void>();
  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set value(next: T) {
    if (next === this.current) return;
    this.current = next;
    for (const listener of [...this.listeners]) listener();
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** The value, and a new drawing whenever it changes. */
export function useShared<T>(shared: Shared<T>): T {
  const [, redraw] = useState(0);
  const drawn = shared.value;
  // Before the browser paints: a change in between would never be drawn.
  useLayoutEffect(() => {
    const again = (): void => redraw((count) => count + 1);
    if (shared.value !== drawn) again();
    return shared.listen(again);
  }, [shared]);
  return drawn;
}

export interface Session {
  name: string;
  tags: string[];
  csrf_token: string | null;
}

/** undefined: not known yet; null: not logged in. */
export const session = new Shared<Session | null | undefined>(undefined);

const INCLUDES: Record<string, string[]> = {
  administrator: ["administrator", "monitoring", "policymaker", "management"],
  monitoring: ["monitoring", "management"],
  policymaker: ["policymaker", "management"],
  management: ["management"],
};

export function may(tag: string): boolean {
  return (session.value?.tags ?? []).some((own) => INCLUDES[own]?.includes(tag));
}

/** Paths of the API that this broker has. */
export const features = new Shared<ReadonlySet<string>>(new Set());

export function has(path: string): boolean {
  return features.value.has(path);
}

// -- settings in local storage ------------------------------------------------------------------

function remembered(name: string): string {
  try {
    return localStorage.getItem(`headrace.${name}`) ?? "";
  } catch {
    return ""; // storage is disabled; the page works without it
  }
}

function remember(name: string, value: string): void {
  try {
    localStorage.setItem(`headrace.${name}`, value);
  } catch {
    // see above
  }
}

export type Theme = "auto" | "light" | "dark";

export const theme = new Shared<Theme>(
  (["light", "dark"] as const).find((one) => one === remembered("theme")) ?? "auto",
);
/** Only this vhost is shown; null: all of them. */
export const vhost = new Shared<string | null>(
  remembered("vhost") ? (JSON.parse(remembered("vhost")) as string | null) : null,
);

function applyTheme(): void {
  const root = document.documentElement;
  if (theme.value === "auto") delete root.dataset.theme;
  else root.dataset.theme = theme.value;
  remember("theme", theme.value);
}

export function startState(): void {
  applyTheme();
  theme.listen(applyTheme);
  vhost.listen(() => remember("vhost", JSON.stringify(vhost.value)));
}

/** Counts up whenever the colours change, for what is drawn on a canvas. */
export function usePalette(): number {
  const chosen = useShared(theme);
  const [count, setCount] = useState(0);
  useEffect(() => {
    const media = matchMedia("(prefers-color-scheme: dark)");
    const changed = (): void => setCount((old) => old + 1);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, []);
  return count * 3 + ["auto", "light", "dark"].indexOf(chosen);
}
