/** Export and import of definitions. */

import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";

import { post } from "../api";
import { plural } from "../format";
import type { Json } from "../types";
import { Card, PageHead } from "../ui/basics";
import { confirmAction } from "../ui/dialog";
import { attempt } from "../ui/notices";
import { url } from "../urls";

const KINDS = ["vhosts", "users", "permissions", "policies", "exchanges", "queues", "bindings"];

function contentOf(definitions: Json): string {
  const counts = KINDS.map((kind) => [kind, definitions[kind]] as const)
    .filter(([, list]) => Array.isArray(list) && list.length > 0)
    .map(([kind, list]) => {
      const count = (list as unknown[]).length;
      return plural(count, count === 1 ? kind.replace(/ies$/, "y").replace(/s$/, "") : kind, kind);
    });
  return counts.join(", ") || "nothing";
}

export function DefinitionsPage(): JSX.Element {
  const input = useRef<HTMLInputElement>(null);
  const [busy, setBusy] = useState(false);
  const load = async (file: File): Promise<void> => {
    setBusy(true);
    await attempt(async () => {
      const definitions = JSON.parse(await file.text()) as Json;
      const sure = await confirmAction({
        title: "Import these definitions?",
        text: `${file.name}: ${contentOf(definitions)}.\n\nExisting objects are kept; users and policies with the same name are replaced.`,
        action: "Import",
      });
      if (sure)
        await attempt(() => post(url(["definitions"]), definitions), "Definitions imported.");
    });
    setBusy(false);
    if (input.current) input.current.value = "";
  };
  return (
    <>
      <PageHead title="Definitions" />
      <div class="columns">
        <Card title="Export">
          <div class="stack">
            <p>
              Vhosts, users, permissions, policies, exchanges, queues and bindings, in RabbitMQ's
              format. Messages are not included.
            </p>
            <p>
              <a
                class="button"
                href={url(["definitions"], { download: "headrace-definitions.json" })}
                download
              >
                Export definitions
              </a>
            </p>
          </div>
        </Card>
        <Card title="Import">
          <label class="field">
            <span>Definitions file of Headrace or RabbitMQ</span>
            <input
              ref={input}
              type="file"
              accept="application/json,.json"
              disabled={busy}
              onChange={(event) => {
                const file = event.currentTarget.files?.[0];
                if (file) void load(file);
              }}
            />
          </label>
        </Card>
      </div>
    </>
  );
}
