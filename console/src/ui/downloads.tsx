/** Links under a list that save it as a file. */

import type { JSX } from "preact";

import { save } from "../export";
import { attempt } from "./notices";

type Loaded = readonly Record<string, unknown>[];

export function Downloads(props: {
  label: string;
  rows: () => Loaded | Promise<Loaded>;
}): JSX.Element {
  const name = props.label.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  return (
    <p class="list-foot muted">
      Download{" "}
      {(["json", "csv"] as const).map((kind) => (
        <button
          key={kind}
          type="button"
          class="quiet"
          aria-label={`Download ${name}.${kind}`}
          onClick={() => void attempt(async () => save(await props.rows(), name, kind))}
        >
          .{kind}
        </button>
      ))}
    </p>
  );
}
