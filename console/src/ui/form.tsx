/** Form fields. */

import type { ComponentChildren, JSX } from "preact";
import { useId, useState } from "preact/hooks";

import { typed } from "../format";

interface FieldProps {
  label: string;
  value: string;
  onValue: (value: string) => void;
  hint?: ComponentChildren;
  required?: boolean;
  placeholder?: string;
  suggestions?: readonly string[];
  type?: "text" | "number" | "password";
  autofocus?: boolean;
  autocomplete?: string;
}

/** The label names the field; the hint only describes it. */
function Labelled(props: {
  label: string;
  hint?: ComponentChildren;
  wide?: boolean;
  children: (ids: { id: string; "aria-describedby"?: string }) => ComponentChildren;
}): JSX.Element {
  const id = useId();
  const hint = `${id}-hint`;
  return (
    <div class={props.wide ? "field wide" : "field"}>
      <label for={id}>{props.label}</label>
      {props.children(props.hint ? { id, "aria-describedby": hint } : { id })}
      {props.hint && <small id={hint}>{props.hint}</small>}
    </div>
  );
}

export function Field(props: FieldProps): JSX.Element {
  const list = useId();
  // Preact's types tie `type` to `list`; here they are independent.
  const kind = { type: props.type ?? "text" } as { type: "text" };
  return (
    <Labelled label={props.label} hint={props.hint}>
      {(ids) => (
        <>
          <input
            {...kind}
            {...ids}
            value={props.value}
            required={props.required}
            placeholder={props.placeholder}
            autofocus={props.autofocus}
            autocomplete={props.autocomplete ?? "off"}
            spellcheck={false}
            list={props.suggestions ? list : undefined}
            onInput={(event) => props.onValue(event.currentTarget.value)}
          />
          {props.suggestions && (
            <datalist id={list}>
              {props.suggestions.map((one) => (
                <option key={one} value={one} />
              ))}
            </datalist>
          )}
        </>
      )}
    </Labelled>
  );
}

export function TextArea(props: FieldProps & { rows?: number }): JSX.Element {
  return (
    <Labelled label={props.label} hint={props.hint} wide>
      {(ids) => (
        <textarea
          {...ids}
          rows={props.rows ?? 5}
          value={props.value}
          placeholder={props.placeholder}
          spellcheck={false}
          onInput={(event) => props.onValue(event.currentTarget.value)}
        />
      )}
    </Labelled>
  );
}

export function Select(props: {
  label: string;
  value: string;
  onValue: (value: string) => void;
  options: readonly (string | [string, string])[];
  hint?: ComponentChildren;
}): JSX.Element {
  return (
    <Labelled label={props.label} hint={props.hint}>
      {(ids) => (
        <select
          {...ids}
          value={props.value}
          onChange={(event) => props.onValue(event.currentTarget.value)}
        >
          {props.options.map((one) => {
            const [value, label] = typeof one === "string" ? [one, one] : one;
            return (
              <option key={value} value={value}>
                {label}
              </option>
            );
          })}
        </select>
      )}
    </Labelled>
  );
}

export function Checkbox(props: {
  label: ComponentChildren;
  value: boolean;
  onValue: (value: boolean) => void;
}): JSX.Element {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={props.value}
        onChange={(event) => props.onValue(event.currentTarget.checked)}
      />
      <span>{props.label}</span>
    </label>
  );
}

export type KeyValues = [string, string][];

/** Names and values as an object; numbers, booleans and JSON are parsed. */
export function objectOf(pairs: KeyValues): Record<string, unknown> {
  return Object.fromEntries(
    pairs.filter(([name]) => name !== "").map(([name, value]) => [name, typed(value)]),
  );
}

export function pairsOf(values: Record<string, unknown>): KeyValues {
  return Object.entries(values).map(([name, value]) => [
    name,
    typeof value === "string" && typed(value) === value ? value : JSON.stringify(value),
  ]);
}

/** Rows of names and values, for arguments, headers and definitions. */
export function KeyValueFields(props: {
  label: string;
  pairs: KeyValues;
  onPairs: (pairs: KeyValues) => void;
  suggestions?: readonly string[];
}): JSX.Element {
  const list = useId();
  const rows: KeyValues = [...props.pairs, ["", ""]];
  const change = (at: number, column: 0 | 1, text: string): void => {
    const next = rows.map(([name, value]): [string, string] => [name, value]);
    next[at][column] = text;
    props.onPairs(next.filter(([name, value]) => name !== "" || value !== ""));
  };
  return (
    <fieldset class="pairs">
      <legend>{props.label}</legend>
      {rows.map(([name, value], at) => (
        <div key={at} class="pair">
          <input
            aria-label={`${props.label}: name ${at + 1}`}
            placeholder="name"
            list={list}
            value={name}
            spellcheck={false}
            onInput={(event) => change(at, 0, event.currentTarget.value)}
          />
          <input
            aria-label={`${props.label}: value ${at + 1}`}
            placeholder="value"
            value={value}
            spellcheck={false}
            onInput={(event) => change(at, 1, event.currentTarget.value)}
          />
          <span class="muted kind-of">{value === "" ? "" : kindOf(typed(value))}</span>
        </div>
      ))}
      <datalist id={list}>
        {props.suggestions?.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    </fieldset>
  );
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return "list";
  return typeof value === "string" ? "text" : typeof value;
}

/** Form whose button is disabled while it is sent. */
export function Form(props: {
  action: string;
  onSend: () => Promise<unknown>;
  children: ComponentChildren;
  disabled?: boolean;
  danger?: boolean;
  extra?: ComponentChildren;
}): JSX.Element {
  const [busy, setBusy] = useState(false);
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        if (busy) return;
        setBusy(true);
        void props.onSend().finally(() => setBusy(false));
      }}
    >
      <div class="fields">{props.children}</div>
      <div class="buttons">
        {props.extra}
        <button
          type="submit"
          class={props.danger ? "danger" : "primary"}
          disabled={busy || props.disabled}
        >
          {busy ? "…" : props.action}
        </button>
      </div>
    </form>
  );
}
