/** Positions of the nodes of a graph: forces between nodes and along edges, from a fixed start, so that the same graph has the same picture. */

export interface Point {
  readonly x: number;
  readonly y: number;
}

interface Size {
  readonly width: number;
  readonly height: number;
}

const iterations = 300;
const attraction = 0.5;
/** Keeps parts without a connection together. */
const gravity = 0.8;
/** Labels are wide and low, so nodes need more horizontal than vertical distance. */
const stretch = 1.7;
const labelWidth = 130;
const labelHeight = 62;
const goldenAngle = Math.PI * (3 - Math.sqrt(5));

/** `edges` are pairs of indexes of nodes. Takes a time proportional to `nodes` squared. */
export function layoutGraph(nodes: number, edges: readonly (readonly [number, number])[], { width, height }: Size): Point[] {
  const radius = Math.sqrt(nodes) / 2;
  const x = new Float64Array(nodes);
  const y = new Float64Array(nodes);
  for (let node = 0; node < nodes; node += 1) {
    const distance = radius * Math.sqrt((node + 0.5) / nodes);
    x[node] = distance * Math.cos(node * goldenAngle);
    y[node] = distance * Math.sin(node * goldenAngle);
  }
  for (let step = 0; step < iterations; step += 1) move(x, y, edges, 0.1 * (1 - step / iterations));
  const points = scaleTo(x, y, { width, height });
  for (let step = 0; step < 40; step += 1) separateLabels(points, { width, height });
  return points.map((point) => ({ x: Math.round(point.x), y: Math.round(point.y) }));
}

/** Moves nodes apart whose labels would cover each other, within the area. */
function separateLabels(points: { x: number; y: number }[], { width, height }: Size): void {
  for (const [index, a] of points.entries()) {
    for (const b of points.slice(index + 1)) {
      const dx = b.x - a.x;
      const dy = b.y - a.y;
      const overlapX = labelWidth - Math.abs(dx);
      const overlapY = labelHeight - Math.abs(dy);
      if (overlapX <= 0 || overlapY <= 0) continue;
      const isVertical = overlapY < overlapX;
      const shift = (isVertical ? overlapY : overlapX) / 4;
      const shiftX = isVertical ? 0 : dx < 0 ? -shift : shift;
      const shiftY = isVertical ? (dy < 0 ? -shift : shift) : 0;
      a.x = clamp(a.x - shiftX, width);
      b.x = clamp(b.x + shiftX, width);
      a.y = clamp(a.y - shiftY, height);
      b.y = clamp(b.y + shiftY, height);
    }
  }
}

function clamp(value: number, max: number): number {
  return Math.min(max, Math.max(0, value));
}

/** One step of at most `maxStep`, by Fruchterman and Reingold with a weak pull to the centre. The ideal length of an edge is 1. */
function move(x: Float64Array, y: Float64Array, edges: readonly (readonly [number, number])[], maxStep: number): void {
  const forceX = new Float64Array(x.length);
  const forceY = new Float64Array(x.length);
  const push = (a: number, b: number, force: number, dx: number, dy: number) => {
    forceX[a] = at(forceX, a) + dx * force;
    forceY[a] = at(forceY, a) + dy * force;
    forceX[b] = at(forceX, b) - dx * force;
    forceY[b] = at(forceY, b) - dy * force;
  };
  for (let a = 0; a < x.length; a += 1) {
    for (let b = a + 1; b < x.length; b += 1) {
      const dx = at(x, a) - at(x, b);
      const dy = at(y, a) - at(y, b);
      push(a, b, 1 / Math.max(0.01, dx * dx + dy * dy), dx, dy);
    }
    forceX[a] = at(forceX, a) - at(x, a) * gravity;
    forceY[a] = at(forceY, a) - at(y, a) * gravity;
  }
  for (const [a, b] of edges) {
    const dx = at(x, a) - at(x, b);
    const dy = at(y, a) - at(y, b);
    if (a !== b) push(a, b, -attraction * Math.hypot(dx, dy), dx, dy);
  }
  for (let node = 0; node < x.length; node += 1) {
    const length = Math.hypot(at(forceX, node), at(forceY, node));
    const scale = length === 0 ? 0 : Math.min(1, (maxStep * 10) / length) * 0.3;
    x[node] = at(x, node) + at(forceX, node) * scale;
    y[node] = at(y, node) + at(forceY, node) * scale;
  }
}

/** Scales the positions into the area, the same in both directions up to `stretch`. */
function scaleTo(x: Float64Array, y: Float64Array, { width, height }: Size): { x: number; y: number }[] {
  const [minX, maxX, minY, maxY] = [Math.min(...x), Math.max(...x), Math.min(...y), Math.max(...y)];
  const scaleY = Math.min(height / Math.max(maxY - minY, 1), width / stretch / Math.max(maxX - minX, 1));
  const scaleX = Math.min(width / Math.max(maxX - minX, 1), scaleY * stretch);
  return Array.from(x, (value, node) => ({
    x: (value - (minX + maxX) / 2) * scaleX + width / 2,
    y: (at(y, node) - (minY + maxY) / 2) * scaleY + height / 2,
  }));
}

function at(values: Float64Array, index: number): number {
  return values[index] ?? 0;
}
