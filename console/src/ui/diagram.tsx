/** Diagram of exchanges, queues and bindings. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { HEIGHT, layoutDiagram, NARROW, WIDE } from "../diagram";
import { exchangeName, shortened } from "../format";
import type { Binding } from "../types";
import { link } from "../urls";

const MOST = 120;

export function BindingDiagram(props: {
  vhost: string;
  bindings: readonly Binding[];
  /** "queue:NAME" or "exchange:NAME": highlighted. */
  focus?: string;
}): JSX.Element {
  const size = matchMedia("(max-width: 760px)").matches ? NARROW : WIDE;
  const diagram = useMemo(
    () => layoutDiagram(props.bindings, props.focus ?? "", MOST, size),
    [props.bindings, props.focus, size],
  );
  const { width, height } = diagram;
  return (
    <figure class="diagram" aria-label="Diagram of the bindings">
      <svg viewBox={`0 0 ${width} ${height}`} width={width} height={height}>
        <title>Bindings</title>
        <defs>
          <marker
            id="tip"
            viewBox="0 0 8 8"
            refX="6"
            refY="4"
            markerWidth="7"
            markerHeight="7"
            orient="auto"
          >
            <path d="M0 0 8 4 0 8Z" class="tip" />
          </marker>
        </defs>
        {diagram.arrows.map((arrow) => (
          <g key={arrow.id}>
            <path class="arrow" d={arrow.path} marker-end="url(#tip)" />
            <text class="key" x={arrow.x} y={arrow.y} text-anchor="middle">
              {arrow.label}
              <title>{arrow.full}</title>
            </text>
          </g>
        ))}
        {diagram.boxes.map((box) => (
          <a
            key={box.id}
            href={link([`${box.kind}s`, props.vhost, box.name])}
            class={`node ${box.kind}${box.focus ? " focus" : ""}`}
          >
            <title>{`${box.kind} ${exchangeName(box.name)}`}</title>
            <rect
              x={box.x}
              y={box.y}
              width={size.width}
              height={HEIGHT}
              rx={box.kind === "queue" ? 4 : HEIGHT / 2}
            />
            <text x={box.x + size.width / 2} y={box.y + HEIGHT / 2 + 4} text-anchor="middle">
              {shortened(box.kind === "exchange" ? exchangeName(box.name) : box.name, size.letters)}
            </text>
          </a>
        ))}
      </svg>
      {diagram.omitted > 0 && (
        <p class="muted">{diagram.omitted} more bindings are not drawn; the table lists all.</p>
      )}
    </figure>
  );
}
