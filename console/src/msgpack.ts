/** Decoder of MessagePack. Pure; throws when the bytes are something else. */

export type Decoded = unknown;

const text = new TextDecoder("utf-8", { fatal: true });

/** One value; all bytes must belong to it. */
export function decodeMsgpack(bytes: Uint8Array): Decoded {
  const reader = new MsgpackReader(bytes);
  const value = reader.value(0);
  if (!reader.done) throw new Error("more bytes than one value");
  return value;
}

class MsgpackReader {
  private at = 0;
  private readonly view: DataView;

  constructor(private readonly bytes: Uint8Array) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get done(): boolean {
    return this.at === this.bytes.length;
  }

  value(depth: number): Decoded {
    if (depth > 64) throw new Error("nested too deeply");
    const tag = this.unsigned(1);
    if (tag < 0x80) return tag;
    if (tag < 0x90) return this.map(tag & 0x0f, depth);
    if (tag < 0xa0) return this.list(tag & 0x0f, depth);
    if (tag < 0xc0) return this.text(tag & 0x1f);
    if (tag >= 0xe0) return tag - 0x100;
    return this.tagged(tag, depth);
  }

  private tagged(tag: number, depth: number): Decoded {
    const size = (first: number): number => 1 << (tag - first);
    if (tag === 0xc0) return null;
    if (tag === 0xc2 || tag === 0xc3) return tag === 0xc3;
    if (tag >= 0xc4 && tag <= 0xc6) return binary(this.take(this.unsigned(size(0xc4))));
    if (tag >= 0xc7 && tag <= 0xc9) return this.extension(this.unsigned(size(0xc7)));
    if (tag === 0xca || tag === 0xcb) return this.float(tag === 0xca ? 4 : 8);
    if (tag >= 0xcc && tag <= 0xcf) return this.unsigned(size(0xcc));
    if (tag >= 0xd0 && tag <= 0xd3) return this.signed(size(0xd0));
    if (tag >= 0xd4 && tag <= 0xd8) return this.extension(size(0xd4));
    if (tag >= 0xd9 && tag <= 0xdb) return this.text(this.unsigned(size(0xd9)));
    if (tag === 0xdc || tag === 0xdd) return this.list(this.unsigned(tag === 0xdc ? 2 : 4), depth);
    if (tag === 0xde || tag === 0xdf) return this.map(this.unsigned(tag === 0xde ? 2 : 4), depth);
    throw new Error("unused tag");
  }

  private take(count: number): Uint8Array {
    if (this.at + count > this.bytes.length) throw new Error("cut short");
    this.at += count;
    return this.bytes.subarray(this.at - count, this.at);
  }

  private unsigned(size: number): number {
    const start = this.at;
    this.take(size);
    if (size === 8) return Number(this.view.getBigUint64(start));
    if (size === 4) return this.view.getUint32(start);
    return size === 2 ? this.view.getUint16(start) : this.view.getUint8(start);
  }

  private signed(size: number): number {
    const start = this.at;
    this.take(size);
    if (size === 8) return Number(this.view.getBigInt64(start));
    if (size === 4) return this.view.getInt32(start);
    return size === 2 ? this.view.getInt16(start) : this.view.getInt8(start);
  }

  private float(size: number): number {
    const start = this.at;
    this.take(size);
    return size === 4 ? this.view.getFloat32(start) : this.view.getFloat64(start);
  }

  private text(length: number): string {
    return text.decode(this.take(length));
  }

  private extension(length: number): string {
    const kind = this.signed(1);
    return `(extension ${kind}: ${binary(this.take(length))})`;
  }

  private list(length: number, depth: number): Decoded[] {
    if (length > this.bytes.length) throw new Error("cut short");
    return Array.from({ length }, () => this.value(depth + 1));
  }

  private map(length: number, depth: number): Decoded {
    if (length > this.bytes.length) throw new Error("cut short");
    const pairs: [string, Decoded][] = [];
    for (let n = 0; n < length; n += 1) {
      const key = this.value(depth + 1);
      pairs.push([typeof key === "string" ? key : JSON.stringify(key), this.value(depth + 1)]);
    }
    return Object.fromEntries(pairs);
  }
}

function binary(bytes: Uint8Array): string {
  return `(${bytes.length} bytes: ${[...bytes.subarray(0, 24)].map(hex).join(" ")}${bytes.length > 24 ? " …" : ""})`;
}

function hex(byte: number): string {
  return byte.toString(16).padStart(2, "0");
}
