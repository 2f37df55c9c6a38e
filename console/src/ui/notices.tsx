/** Notifications: results and errors of actions. */

import type { JSX } from "preact";

import { Shared, useShared } from "../state";

interface Notice {
  id: number;
  text: string;
  bad: boolean;
}

/** Number of open dialogs. While one is open, notifications are shown inside it: the rest is inert. */
export const dialogs = new Shared(0);

const notices = new Shared<Notice[]>([]);
let count = 0;

export function notify(text: string, bad = false): void {
  count += 1;
  const notice = { id: count, text, bad };
  notices.value = [...notices.value.slice(-3), notice];
  window.setTimeout(() => dismiss(notice.id), bad ? 12_000 : 5000);
}

function dismiss(id: number): void {
  notices.value = notices.value.filter((one) => one.id !== id);
}

/** Runs an action and reports its error; true if it succeeded. */
export async function attempt(action: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await action();
  } catch (error) {
    notify(error instanceof Error ? error.message : String(error), true);
    return false;
  }
  if (done) notify(done);
  return true;
}

export function Notices(props: { inside?: boolean }): JSX.Element {
  const all = useShared(notices);
  const here = useShared(dialogs) > 0 === (props.inside ?? false);
  return (
    <div class="notices" role="status" aria-live="polite">
      {(here ? all : []).map((one) => (
        <div key={one.id} class={one.bad ? "notice bad" : "notice"}>
          <span>{one.text}</span>
          <button type="button" class="quiet" aria-label="Close" onClick={() => dismiss(one.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
