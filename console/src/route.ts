/** Addresses: parts of a path that may hold any name, in the page's hash and in the API's URLs. */

export interface Place {
  parts: string[];
  query: Record<string, string>;
}

/** A name that is not UTF-8 comes with its bytes as U+DC80..U+DCFF; they go back as they were. */
export function encoded(name: string): string {
  if (name === "." || name === "..") {
    throw new Error(`browsers cannot ask for something called "${name}"; use the command line`);
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

export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // Single bytes that are no UTF-8 become what `encoded` understands.
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
export function parsed(hash: string): Place {
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
  return text === EMPTY ? "" : decoded(text);
}

function written(name: string): string {
  if (name === "") return EMPTY;
  if (name === EMPTY) return "%7E";
  return name === "." || name === ".." ? name.replaceAll(".", "%2E") : encoded(name);
}

export type Query = Record<string, string | number | boolean | null | undefined>;

/** What goes behind the question mark; nothing when all values are empty. */
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
  return `/api/${parts.map(encoded).join("/")}${search(query)}`;
}

/** The name of an exchange in URLs: the one without a name has one there. */
export function exchangePart(name: string): string {
  return name === "" ? "amq.default" : name;
}
