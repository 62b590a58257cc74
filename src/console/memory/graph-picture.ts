/** Draws facts as nodes and arrows. Every node is a link. */
import type { Fact } from '../../memory/search/graph.ts';
import { type Html, html } from '../frame/html.ts';
import { layoutGraph, type Point } from './graph-layout.ts';

type DrawnFact = Pick<Fact, 'sourceId' | 'sourceName' | 'relation' | 'targetId' | 'targetName'>;

interface PictureOptions {
  readonly hrefOf: (entity: string) => string;
  readonly title: string;
}

interface Format {
  readonly name: 'wide' | 'narrow';
  readonly width: number;
  readonly marginX: number;
  readonly nodeRadius: number;
  readonly passes: number;
  readonly maxLabelLength: number;
  /**
   * Arrows only have labels if there are at most this many arrows. Otherwise, the labels would cover each other. The
   * tooltips and the table show them in any case.
   */
  readonly maxLabelledArrows: number;
}

const wide: Format = { name: 'wide', width: 1_000, marginX: 90, nodeRadius: 70, passes: 1, maxLabelLength: 26, maxLabelledArrows: 12 };
/** Phones get this picture, because the wide one would be scaled down until nobody can read its labels. */
const narrow: Format = { name: 'narrow', width: 360, marginX: 58, nodeRadius: 52, passes: 3, maxLabelLength: 17, maxLabelledArrows: 4 };
const marginY = 40;

interface Node {
  readonly name: string;
  readonly degree: number;
}

const radiusOf = (node: Node | undefined): number => 6 + Math.min(7, node?.degree ?? 0);

/** Draws the graph twice, wide and narrow. The style sheet shows the one that fits the screen. */
export function drawGraph(facts: readonly DrawnFact[], options: PictureOptions): Html {
  return html`${drawFormat(facts, options, wide)}${drawFormat(facts, options, narrow)}`;
}

function drawFormat(facts: readonly DrawnFact[], { hrefOf, title }: PictureOptions, format: Format): Html {
  const { name, width, marginX, nodeRadius, passes, maxLabelLength, maxLabelledArrows } = format;
  const nodes = countNodes(facts);
  const index = new Map([...nodes.keys()].map((id, position) => [id, position]));
  const indexOf = (id: string): number => index.get(id) ?? 0;
  const arrows = mergeArrows(facts);
  const edges = arrows.map(({ sourceId, targetId }) => [indexOf(sourceId), indexOf(targetId)] as const);
  const { points, height } = layoutGraph(nodes.size, edges, { width: width - 2 * marginX, nodeRadius, passes });
  const pointOf = (id: string): Point => {
    const { x, y } = points[indexOf(id)] ?? { x: 0, y: 0 };
    return { x: x + marginX, y: y + marginY };
  };
  const isLabelled = arrows.length <= maxLabelledArrows;
  const drawnArrows = arrows.map(({ sourceId, targetId, relations }) => {
    const [from, to] = [pointOf(sourceId), pointOf(targetId)];
    const label = isLabelled ? arrowLabel(from, to, cut(relations.join(', '), maxLabelLength)) : '';
    return html`<g class="arrow"><path d="${arrowPath(from, to, radiusOf(nodes.get(targetId)))}" marker-end="url(#arrow-${name})"><title>${relations.join(', ')}</title></path>${label}</g>`;
  });
  const drawnNodes = [...nodes].map(([id, node]) => {
    const { x, y } = pointOf(id);
    const radius = radiusOf(node);
    return html`<a href="${hrefOf(node.name)}"><title>${node.name}</title><circle cx="${x}" cy="${y}" r="${radius}"/>
<text x="${x}" y="${y + radius + 13}" text-anchor="middle">${cut(node.name, maxLabelLength)}</text></a>`;
  });
  return html`<div class="graph ${name}" tabindex="0" role="region" aria-label="Picture of the graph"><svg viewBox="0 0 ${width} ${height + 2 * marginY}" role="group" aria-label="${title}">
<defs><marker id="arrow-${name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0.5 8 4 0 7.5z"/></marker></defs>
${drawnArrows}${drawnNodes}</svg></div>`;
}

function countNodes(facts: readonly DrawnFact[]): Map<string, Node> {
  const nodes = new Map<string, Node>();
  const count = (id: string, name: string) => nodes.set(id, { name, degree: (nodes.get(id)?.degree ?? 0) + 1 });
  for (const { sourceId, sourceName, targetId, targetName } of facts) {
    count(sourceId, sourceName);
    count(targetId, targetName);
  }
  // The layout places the first nodes in the centre, so start with the ones that have the most connections.
  return new Map([...nodes].sort(([, a], [, b]) => b.degree - a.degree || (a.name < b.name ? -1 : 1)));
}

/** Merges facts with the same source and target into a single arrow. */
function mergeArrows(facts: readonly DrawnFact[]) {
  const arrows = Map.groupBy(facts, ({ sourceId, targetId }) => `${sourceId} ${targetId}`);
  return [...arrows].map(([ids, group]) => {
    const [sourceId = '', targetId = ''] = ids.split(' ');
    return { sourceId, targetId, relations: [...new Set(group.map(({ relation }) => relation))] };
  });
}

/** Returns the path of an arrow up to the edge of the target's circle. An arrow from a node to itself is a loop. */
function arrowPath(from: Point, to: Point, radius: number): string {
  const length = Math.hypot(to.x - from.x, to.y - from.y);
  if (length < 1) return `M${from.x} ${from.y - radius} c-40 -46 40 -46 4 -2`;
  const gap = (radius + 3) / length;
  return `M${from.x} ${from.y} L${(to.x - (to.x - from.x) * gap).toFixed(1)} ${(to.y - (to.y - from.y) * gap).toFixed(1)}`;
}

function arrowLabel(from: Point, to: Point, text: string): Html {
  const x = Math.round((from.x + to.x) / 2);
  const y = Math.round((from.y + to.y) / 2) - 3;
  return html`<text x="${x}" y="${y}" text-anchor="middle" class="relation">${text}</text>`;
}

function cut(text: string, maxLength: number): string {
  const characters = [...text];
  return characters.length <= maxLength ? text : `${characters.slice(0, maxLength - 1).join('')}…`;
}
