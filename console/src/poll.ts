/** Polling of the API: only for what is on the screen, never in a hidden tab. */

import { useEffect, useRef, useState } from "preact/hooks";

import { ApiError, get } from "./api";

export const EVERY = 5000;
const SLOWEST = 30_000;
const pace = { factor: 1 };

/** Responses cost more with many queues, so polling is slower then. */
export function adaptPollRate(queues: number): void {
  pace.factor = queues > 5000 ? 3 : queues > 2000 ? 2 : 1;
}

export interface Polled<T> {
  data: T | undefined;
  error: ApiError | undefined;
  /** Polls at once, for example after a change. */
  refresh: () => void;
}

/** Calls `request` now and periodically while the tab is visible. */
export function repeat(
  request: (signal: AbortSignal) => Promise<boolean>,
  every: number,
): { stop: () => void; now: () => void } {
  const control = { timer: 0, running: false, again: false, stopped: false, failures: 0 };
  const abort = new AbortController();

  async function run(): Promise<void> {
    clearTimeout(control.timer);
    if (control.stopped) return;
    if (control.running) {
      control.again = true;
      return;
    }
    control.running = true;
    const fine = await request(abort.signal);
    control.running = false;
    control.failures = fine ? 0 : control.failures + 1;
    if (control.again) {
      control.again = false;
      void run();
    } else schedule();
  }

  function schedule(): void {
    if (control.stopped || document.hidden || every <= 0) return;
    const usual = every * pace.factor;
    const wait = Math.min(usual * 2 ** Math.min(control.failures, 5), Math.max(SLOWEST, usual));
    control.timer = window.setTimeout(() => void run(), wait);
  }

  function visibility(): void {
    if (document.hidden) clearTimeout(control.timer);
    else void run();
  }

  document.addEventListener("visibilitychange", visibility);
  void run();
  return {
    now: () => void run(),
    stop: () => {
      control.stopped = true;
      clearTimeout(control.timer);
      abort.abort();
      document.removeEventListener("visibilitychange", visibility);
    },
  };
}

/** The response of GET `path`, polled. Null: no requests. */
export function usePoll<T>(path: string | null, every: number = EVERY): Polled<T> {
  const [state, setState] = useState<{ of: string; data?: T; error?: ApiError }>({ of: "" });
  const running = useRef<{ now: () => void } | null>(null);
  const resource = path?.split("?")[0] ?? "";

  useEffect(() => {
    if (path === null) return;
    const repeated = repeat(async (signal) => {
      try {
        const data = await get<T>(path, signal);
        if (!signal.aborted) setState({ of: resource, data });
        return true;
      } catch (error) {
        if (signal.aborted) return true;
        const failure =
          error instanceof ApiError ? error : new ApiError(0, "failed", String(error));
        setState((old) => ({ ...(old.of === resource ? old : { of: resource }), error: failure }));
        return false;
      }
    }, every);
    running.current = repeated;
    return () => repeated.stop();
  }, [path, every]);

  // The same list in another order shows the old rows until the new ones arrive.
  const valid = state.of === resource;
  return {
    data: valid ? state.data : undefined,
    error: valid ? state.error : undefined,
    refresh: () => running.current?.now(),
  };
}
