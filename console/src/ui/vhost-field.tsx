/** Field for a virtual host, and name suggestions. */

import type { JSX } from "preact";

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

/** Names of exchanges or queues, as suggestions for a field. */
export function useNames(kind: "exchanges" | "queues", vhost: string): string[] {
  const query = { columns: "name", page: 1, page_size: 500 };
  const { data } = usePoll<{ items: { name: string }[] }>(url([kind, vhost], query), 0);
  return (data?.items ?? []).map((one) => one.name).filter((name) => name !== "");
}
