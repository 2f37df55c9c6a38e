/** Layout of the binding diagram: coordinates of boxes and arrows. Pure. */

import { shortened } from "./format";
import type { Binding } from "./types";

export interface Box {
  id: string;
  kind: "queue" | "exchange";
  name: string;
  x: number;
  y: number;
  focus: boolean;
}

export interface Arrow {
  id: string;
  path: string;
  label: string;
  full: string;
  x: number;
  y: number;
}

export interface Diagram {
  boxes: Box[];
  arrows: Arrow[];
  width: number;
  height: number;
  omitted: number; // bindings that are not drawn
}

export interface Size {
  width: number; // of a box
  gap: number; // between columns
  letters: number; // of a name or key that fit
}

export const WIDE: Size = { width: 210, gap: 240, letters: 28 };
export const NARROW: Size = { width: 116, gap: 84, letters: 14 };
export const HEIGHT = 30; // of a box
const ROW = HEIGHT + 14;
const MARGIN = 10;

interface Pair {
  from: string;
  to: string;
  keys: string[];
}

const idOf = (kind: string, name: string): string => `${kind}:${name}`;

/** Bindings with the same source and destination share one arrow. */
function pairsOf(bindings: readonly Binding[]): Map<string, Pair> {
  const pairs = new Map<string, Pair>();
  for (const one of bindings) {
    const from = idOf("exchange", one.source);
    const to = idOf(one.destination_type, one.destination);
    const id = JSON.stringify([from, to]);
    const pair = pairs.get(id) ?? { from, to, keys: [] };
    const matched = Object.keys(one.arguments).length > 0;
    pair.keys.push(one.routing_key || (matched ? JSON.stringify(one.arguments) : ""));
    pairs.set(id, pair);
  }
  return pairs;
}

/** The column of a box: the longest path that leads to it; cycles count once. */
function columnsOf(pairs: Iterable<Pair>): Map<string, number> {
  const columns = new Map<string, number>();
  const all = [...pairs];
  for (const { from, to } of all) {
    columns.set(from, 0);
    columns.set(to, columns.get(to) ?? 0);
  }
  for (let round = 0; round < Math.min(columns.size, 6); round += 1) {
    let moved = false;
    for (const { from, to } of all) {
      const wanted = (columns.get(from) ?? 0) + 1;
      if (from !== to && (columns.get(to) ?? 0) < wanted && wanted <= 6) {
        columns.set(to, wanted);
        moved = true;
      }
    }
    if (!moved) break;
  }
  const deepest = Math.max(0, ...columns.values());
  for (const id of columns.keys()) if (id.startsWith("queue:")) columns.set(id, deepest);
  return columns;
}

export function layoutDiagram(
  bindings: readonly Binding[],
  focus: string,
  most: number,
  size: Size = WIDE,
): Diagram {
  const shown = bindings.slice(0, most);
  const pairs = pairsOf(shown);
  const columns = columnsOf(pairs.values());
  const lines: string[][] = [];
  for (const [id, column] of columns) lines[column] = [...(lines[column] ?? []), id];
  const used = lines.filter((line) => line && line.length > 0);
  const tallest = Math.max(1, ...used.map((line) => line.length));
  const height = tallest * ROW - (ROW - HEIGHT) + 2 * MARGIN;
  const boxes = new Map<string, Box>();
  used.forEach((line, column) => {
    const own = line.length * ROW - (ROW - HEIGHT);
    line.forEach((id, row) => {
      const kind = id.startsWith("queue:") ? "queue" : "exchange";
      boxes.set(id, {
        id,
        kind,
        name: id.slice(kind.length + 1),
        x: MARGIN + column * (size.width + size.gap),
        y: (height - own) / 2 + row * ROW,
        focus: id === focus,
      });
    });
  });
  const ends = [...pairs.values()];
  const arrows = [...pairs.entries()].flatMap(([id, pair]) => {
    const [from, to] = [boxes.get(pair.from), boxes.get(pair.to)];
    // Labels are beside the box that has fewer arrows: there they do not collide.
    const leaving = ends.filter((one) => one.from === pair.from).length;
    const atStart = leaving < ends.filter((one) => one.to === pair.to).length;
    return from && to ? [arrowOf(id, pair.keys, from, to, size, atStart)] : [];
  });
  const width = MARGIN * 2 + used.length * size.width + (used.length - 1) * size.gap;
  return {
    boxes: [...boxes.values()],
    arrows: spreadLabels(arrows),
    width: Math.max(width, size.width + 2 * MARGIN),
    height,
    omitted: bindings.length - shown.length,
  };
}

function arrowOf(
  id: string,
  keys: string[],
  from: Box,
  to: Box,
  size: Size,
  atStart: boolean,
): Arrow {
  const [x1, y1] = [from.x + size.width, from.y + HEIGHT / 2];
  const [x2, y2] = [to.x - 6, to.y + HEIGHT / 2];
  const bend = Math.max(40, Math.abs(x2 - x1) / 2);
  const full = keys.map((key) => key || "(no key)").join(", ");
  const several = keys.length > 1 ? ` +${keys.length - 1}` : "";
  const inset = Math.min(size.gap * 0.38, (x2 - x1) / 2);
  const [lx, ly] = atStart ? [x1 + inset, y1] : [x2 - inset, y2];
  return {
    id,
    path: `M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`,
    label: shortened(keys[0] ?? "", size.letters - (several ? 10 : 6)) + several,
    full,
    x: lx,
    y: ly - 4,
  };
}

/** Stacks labels that would overlap. */
function spreadLabels(arrows: Arrow[]): Arrow[] {
  const taken = new Set<string>();
  return arrows.map((arrow) => {
    let { y } = arrow;
    while (taken.has(`${Math.round(arrow.x / 60)}:${Math.round(y / 12)}`)) y -= 12;
    taken.add(`${Math.round(arrow.x / 60)}:${Math.round(y / 12)}`);
    return { ...arrow, y };
  });
}
