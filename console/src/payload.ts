/** Recognises what a message holds: a Celery task, JSON, MessagePack, text or bytes. Pure. */

import { decodeMsgpack } from "./msgpack";
import type { Json, Message } from "./types";

export interface Task {
  name: string;
  id: string;
  args: string;
  kwargs: string;
  retries: number;
  eta: string | null;
  expires: string | null;
}

export interface Payload {
  kind: "Celery task" | "JSON" | "MessagePack" | "text" | "binary";
  /** For display. */
  text: string;
  task?: Task;
}

export function payloadOf(message: Message): Payload {
  const task = taskOf(message);
  const payload = contentOf(message);
  return task ? { ...payload, kind: "Celery task", task } : payload;
}

function contentOf(message: Message): Payload {
  if (message.payload_encoding === "string") {
    const value = parsed(message.payload);
    if (typeof value !== "object" || value === null) return { kind: "text", text: message.payload };
    // Large numbers would lose digits: such a payload is shown as it is.
    const exact = !/\d{16}/.test(message.payload);
    return { kind: "JSON", text: exact ? JSON.stringify(value, null, 2) : message.payload };
  }
  const bytes = Uint8Array.from(atob(message.payload), (char) => char.charCodeAt(0));
  try {
    const value = decodeMsgpack(bytes);
    // A single small number is more likely a byte of something else.
    if (typeof value === "object" && value !== null) {
      return { kind: "MessagePack", text: JSON.stringify(value, null, 2) };
    }
  } catch {
    // not MessagePack
  }
  return { kind: "binary", text: dump(bytes) };
}

/** Celery's protocol 2: the task is in the headers, the body is [args, kwargs, embed]. */
function taskOf(message: Message): Task | undefined {
  const properties = Array.isArray(message.properties) ? {} : message.properties;
  const headers = (properties.headers ?? {}) as Json;
  if (typeof headers.task !== "string" || typeof headers.id !== "string") return undefined;
  const value = message.payload_encoding === "string" ? parsed(message.payload) : undefined;
  const [args, kwargs] = Array.isArray(value) ? value : [];
  return {
    name: headers.task,
    id: headers.id,
    args: args === undefined ? String(headers.argsrepr ?? "") : JSON.stringify(args),
    kwargs: kwargs === undefined ? String(headers.kwargsrepr ?? "") : JSON.stringify(kwargs),
    retries: typeof headers.retries === "number" ? headers.retries : 0,
    eta: typeof headers.eta === "string" ? headers.eta : null,
    expires: typeof headers.expires === "string" ? headers.expires : null,
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Lines of offset, bytes in hexadecimal, and printable characters. */
function dump(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const part = [...bytes.subarray(at, at + 16)];
    const digits = part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const letters = part.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "."));
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits.padEnd(47)}  ${letters.join("")}`);
  }
  return lines.join("\n");
}
