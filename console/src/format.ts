/** Formats numbers, sizes and times for display. Pure: the clock is passed in. */

const NONE = "–";

function known(value: number | null | undefined): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

/** 1234567 -> "1,234,567". */
export function whole(value: number | null | undefined): string {
  return known(value) ? Math.round(value).toLocaleString("en-US") : NONE;
}

function scaled(value: number, step: number, units: readonly string[]): string {
  let size = Math.abs(value);
  let unit = 0;
  while (unit < units.length - 1 && Number(size.toPrecision(3)) >= step) {
    size /= step;
    unit += 1;
  }
  const shown = unit === 0 && Number.isInteger(size) ? String(size) : trimmed(size);
  return `${value < 0 ? "-" : ""}${shown}${units[unit]}`;
}

/** Three digits at most: 0.25, 3.5, 12.3, 640. */
function trimmed(size: number): string {
  const digits = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return size.toFixed(digits).replace(/\.0+$|(\.\d*?)0+$/, "$1");
}

/** 12345 -> "12.3k". */
export function compact(value: number | null | undefined): string {
  return known(value) ? scaled(value, 1000, ["", "k", "M", "G", "T"]) : NONE;
}

/** 12345 -> "12.1 KiB". */
export function bytes(value: number | null | undefined): string {
  if (!known(value)) return NONE;
  return scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]);
}

/** 12.345 -> "12.3/s". */
export function rate(value: number | null | undefined): string {
  return known(value) ? `${compact(Math.abs(value) < 0.005 ? 0 : value)}/s` : NONE;
}

/** Seconds -> "850 µs", "3.2 ms", "1.5 s". */
export function latency(seconds: number | null | undefined): string {
  if (!known(seconds)) return NONE;
  if (seconds === 0) return "0 ms";
  if (seconds < 0.001) return `${trimmed(seconds * 1e6)} µs`;
  if (seconds < 1) return `${trimmed(seconds * 1000)} ms`;
  return seconds < 100 ? `${trimmed(seconds)} s` : duration(seconds);
}

/** Seconds -> "42 s", "3 min 20 s", "5 h 12 min", "3 d 4 h". */
export function duration(seconds: number | null | undefined): string {
  if (!known(seconds)) return NONE;
  const all = Math.max(0, Math.round(seconds));
  const parts: [number, string][] = [
    [Math.floor(all / 86400), "d"],
    [Math.floor(all / 3600) % 24, "h"],
    [Math.floor(all / 60) % 60, "min"],
    [all % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  if (first < 0) return "0 s";
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(" ");
}

/** A moment, ms since 1970, as the distance from now: "just now", "5 min ago". */
export function ago(ms: number | null | undefined, now: number): string {
  if (!known(ms)) return NONE;
  const seconds = (now - ms) / 1000;
  if (seconds < 5) return "just now";
  return `${duration(seconds < 3600 ? seconds : Math.round(seconds / 60) * 60)} ago`;
}

/** A moment, ms since 1970, in the local time zone: "2026-11-16 08:15:03". */
export function moment(ms: number | null | undefined): string {
  if (!known(ms)) return NONE;
  const at = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return Number.isNaN(at.getTime()) ? NONE : at.toISOString().slice(0, 19).replace("T", " ");
}

/** The name of an exchange for display; the default exchange has an empty one. */
export function exchangeName(name: string): string {
  return name === "" ? "(default exchange)" : name;
}

export function shortened(text: string, most: number): string {
  const chars = [...text];
  return chars.length <= most ? text : `${chars.slice(0, most - 1).join("")}…`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${whole(count)} ${count === 1 ? one : many}`;
}

/** The value of an argument as typed into a field: numbers, booleans, JSON or text. */
export function typed(text: string): unknown {
  const given = text.trim();
  if (/^(-?(0|[1-9]\d*)(\.\d+)?|true|false|[[{"].*)$/s.test(given)) {
    try {
      return JSON.parse(given);
    } catch {
      return text;
    }
  }
  return text;
}

/** "queues" -> "queue", "policies" -> "policy". */
export function singular(noun: string): string {
  return noun.endsWith("ies") ? `${noun.slice(0, -3)}y` : noun.replace(/s$/, "");
}
