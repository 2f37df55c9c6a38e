/** Banner on every page while an alarm blocks publishers. */

import type { JSX } from "preact";

import { usePoll } from "../poll";
import { link } from "../urls";

const EVERY = 15_000;

export function Alarm(): JSX.Element | null {
  const { data } = usePoll<{ alarm: string | null }>("/healthz", EVERY);
  if (!data?.alarm) return null;
  return (
    <p class="failure" role="alert">
      Publishers are blocked: {data.alarm}. See the <a href={link([])}>overview</a>.
    </p>
  );
}
