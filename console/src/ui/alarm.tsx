/** On every page: that publishers are held back, and why. Whoever wonders must not have to search. */

import type { JSX } from "preact";

import { usePoll } from "../poll";
import { link } from "../route";

const EVERY = 15_000;

export function Alarm(): JSX.Element | null {
  const { data } = usePoll<{ alarm: string | null }>("/healthz", EVERY);
  if (!data?.alarm) return null;
  return (
    <p class="failure" role="alert">
      Publishers are held back: {data.alarm}. <a href={link([])}>The overview</a> has the figures.
    </p>
  );
}
