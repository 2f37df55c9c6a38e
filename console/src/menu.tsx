/** Navigation menu. */

import type { JSX } from "preact";
import { has, may } from "./state";
import { link, type PageAddress } from "./urls";

interface Entry {
  id: string;
  label: string;
  when?: () => boolean;
}

const GROUPS: [string, Entry[]][] = [
  [
    "",
    [
      { id: "", label: "Overview" },
      { id: "map", label: "Map" },
    ],
  ],
  [
    "Clients",
    [
      { id: "connections", label: "Connections" },
      { id: "channels", label: "Channels" },
    ],
  ],
  [
    "Messages",
    [
      { id: "exchanges", label: "Exchanges" },
      { id: "queues", label: "Queues" },
      { id: "deadletters", label: "Dead letters", when: () => has("/api/deadletters") },
    ],
  ],
  [
    "Streams",
    [
      { id: "topics", label: "Topics", when: () => has("/api/topics") },
      { id: "groups", label: "Groups", when: () => has("/api/groups") },
      { id: "pipelines", label: "Pipelines", when: () => has("/api/pipelines") },
    ],
  ],
  [
    "Tools",
    [
      { id: "route", label: "Test routing", when: () => has("/api/route") },
      {
        id: "find",
        label: "Find a message",
        when: () => has("/api/queues/{vhost}/{name}/browse"),
      },
      { id: "reports", label: "Reports" },
    ],
  ],
  [
    "Administration",
    [
      { id: "vhosts", label: "Virtual hosts" },
      { id: "users", label: "Users", when: () => may("administrator") },
      { id: "policies", label: "Policies" },
      { id: "limits", label: "Limits", when: () => may("monitoring") },
      { id: "definitions", label: "Definitions", when: () => may("administrator") },
    ],
  ],
];

export function entries(): Entry[] {
  return GROUPS.flatMap(([, group]) => group).filter((one) => one.when?.() ?? true);
}

export function Menu(props: { address: PageAddress }): JSX.Element {
  const current = props.address.parts[0] ?? "";
  return (
    <nav class="menu" aria-label="Pages">
      {GROUPS.map(([title, group]) => {
        const shown = group.filter((one) => one.when?.() ?? true);
        return shown.length === 0 ? null : (
          <div key={title} class="menu-group">
            {title && <h2>{title}</h2>}
            <ul>
              {shown.map((one) => (
                <li key={one.id}>
                  <a
                    href={link([one.id].filter(Boolean))}
                    aria-current={one.id === current ? "page" : undefined}
                  >
                    {one.label}
                  </a>
                </li>
              ))}
            </ul>
          </div>
        );
      })}
    </nav>
  );
}
