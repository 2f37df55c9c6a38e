/** Field for a virtual host, and name suggestions. */

import type { JSX } from "preact";

import { get } from "../api";
import { usePoll } from "../poll";
import { url } from "../urls";
import { Select } from "./form";

export function useVhosts(): string[] {
  const { data } = usePoll<{ name: string }[]>(url(["vhosts"], { columns: "name" }), 0);
  return (data ?? []).map((one) => one.name);
}

export function VhostField(props: {
  value: string;
  onValue: (value: string) => void;
  label?: string;
}): JSX.Element {
  const names = useVhosts();
  const known = names.includes(props.value) ? names : [props.value, ...names];
  return (
    <Select
      label={props.label ?? "Virtual host"}
      value={props.value}
      onValue={props.onValue}
      options={known}
    />
  );
}

type Kind = "exchanges" | "queues";

interface Named {
  items: { name: string }[];
}

/** Names of exchanges or queues, as suggestions for a field. */
export function useNames(kind: Kind, vhost: string): string[] {
  const { data } = usePoll<Named>(namesUrl(kind, vhost), 0);
  return data ? namesOf(data) : [];
}

export async function fetchNames(
  kind: Kind,
  vhost: string,
  signal: AbortSignal,
): Promise<string[]> {
  return namesOf(await get<Named>(namesUrl(kind, vhost), signal));
}

function namesUrl(kind: Kind, vhost: string): string {
  return url([kind, vhost], { columns: "name", page: 1, page_size: 500 });
}

function namesOf(found: Named): string[] {
  return found.items.map((one) => one.name).filter((name) => name !== "");
}
