/** Page addresses (the URL's hash) and API URLs. Names in them can be any text. */

export interface PageAddress {
  parts: string[];
  query: Record<string, string>;
}

/** Bytes that are not UTF-8 arrive as U+DC80..U+DCFF and are sent back as those bytes. */
export function encodeName(name: string): string {
  if (name === "." || name === "..") {
    throw new Error(`browsers cannot request the name "${name}": use the command line`);
  }
  let text = "";
  for (const char of name) {
    const code = char.codePointAt(0) ?? 0;
    if (code >= 0xdc80 && code <= 0xdcff) text += `%${(code - 0xdc00).toString(16).toUpperCase()}`;
    else if (code >= 0xd800 && code <= 0xdfff) text += "%EF%BF%BD";
    else text += encodeURIComponent(char);
  }
  return text;
}

export function decodeName(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // Bytes that are not UTF-8 become what `encodeName` accepts.
    return text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => {
      try {
        return decodeURIComponent(run);
      } catch {
        return run.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => {
          const byte = parseInt(hex, 16);
          return String.fromCharCode(byte < 0x80 ? byte : 0xdc00 + byte);
        });
      }
    });
  }
}

/** "#/queues/%2F/a?tab=x" -> its parts and its query. */
export function parseHash(hash: string): PageAddress {
  const [path = "", search = ""] = hash.replace(/^#?\/?/, "").split(/\?(.*)/s);
  const parts = path
    .split("/")
    .filter((part) => part !== "")
    .map(part);
  const query: Record<string, string> = {};
  for (const [name, value] of new URLSearchParams(search)) query[name] = value;
  return { parts, query };
}

const EMPTY = "~"; // a part for the empty name: an empty one would vanish between two slashes

function part(text: string): string {
  return text === EMPTY ? "" : decodeName(text);
}

function written(name: string): string {
  if (name === "") return EMPTY;
  if (name === EMPTY) return "%7E";
  return name === "." || name === ".." ? name.replaceAll(".", "%2E") : encodeName(name);
}

export type Query = Record<string, string | number | boolean | null | undefined>;

/** The query string, without empty values. */
export function search(query: Query): string {
  const kept = Object.entries(query).filter(
    ([, value]) => value !== undefined && value !== null && value !== "" && value !== false,
  );
  const text = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
  return text ? `?${text}` : "";
}

/** The address of a page: link(["queues", "/", "a b"]) -> "#/queues/%2F/a%20b". */
export function link(parts: readonly string[], query: Query = {}): string {
  return `#/${parts.map(written).join("/")}${search(query)}`;
}

/** A URL of the API. */
export function url(parts: readonly string[], query: Query = {}): string {
  return `/api/${parts.map(encodeName).join("/")}${search(query)}`;
}

/** The name of an exchange in URLs; the default exchange is amq.default there. */
export function exchangePart(name: string): string {
  return name === "" ? "amq.default" : name;
}
