/** Lists as JSON and CSV files. */

import { get } from "./api";

/** RFC 4180: a header, CRLF between rows, nested values as JSON. */
export function csvOf(rows: readonly Record<string, unknown>[]): string {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const lines = rows.map((row) => names.map((name) => cell(row[name])).join(","));
  return [names.map(cell).join(","), ...lines].join("\r\n");
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return "";
  let text = typeof value === "object" ? JSON.stringify(value) : String(value);
  // Spreadsheets take these for formulas.
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Loads all rows of a list. */
export function load(path: string): Promise<Record<string, unknown>[]> {
  return get(path);
}

/** Saves rows as NAME.json or NAME.csv. */
export function save(
  rows: readonly Record<string, unknown>[],
  name: string,
  kind: "json" | "csv",
): void {
  const text = kind === "csv" ? csvOf(rows) : JSON.stringify(rows, null, 2);
  const type = kind === "csv" ? "text/csv" : "application/json";
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(new Blob([text], { type }));
  anchor.download = `${name}.${kind}`;
  anchor.click();
  URL.revokeObjectURL(anchor.href);
}
