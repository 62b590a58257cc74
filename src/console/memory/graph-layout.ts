/**
 * Computes the positions of a graph's nodes with d3-force. The initial positions are fixed, so a graph looks the same
 * every time.
 */
import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY, type SimulationNodeDatum } from 'd3-force';

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** Half of d3-force's default, which halves the time that a layout takes. */
const ticks = 150;
/** Labels are wide but low, so a node needs less room above and below than beside it. */
const flatness = 0.6;

/**
 * Lays out a graph. An edge is a pair of indexes into the nodes. `nodeRadius` is the space that a node needs for its
 * label, and `passes` says how often we resolve collisions per step. Increase it for narrow pictures, where nodes
 * easily get stuck behind each other. The height depends on the layout.
 */
export function layoutGraph(
  nodes: number,
  edges: readonly (readonly [number, number])[],
  { width, nodeRadius, passes }: { readonly width: number; readonly nodeRadius: number; readonly passes: number },
): { readonly points: readonly Point[]; readonly height: number } {
  const placed = Array.from({ length: nodes }, (): SimulationNodeDatum => ({}));
  const simulation = forceSimulation(placed)
    .force('repulsion', forceManyBody().strength(-200))
    .force('edges', forceLink(edges.map(([source, target]) => ({ source, target }))).distance(2 * nodeRadius))
    .force('x', forceX(width / 2).strength(0.05))
    .force('y', forceY(0).strength(0.1))
    .force('labels', forceCollide(nodeRadius).iterations(passes))
    // With this value, the last tick reaches 0.001, which is d3-force's default minimum.
    .alphaDecay(1 - 0.001 ** (1 / ticks))
    .stop();
  for (let tick = 0; tick < ticks; tick += 1) {
    simulation.tick();
    for (const node of placed) node.x = Math.min(width, Math.max(0, node.x ?? 0));
  }
  const top = Math.min(...placed.map(({ y = 0 }) => y));
  const points = placed.map(({ x = 0, y = 0 }) => ({ x: Math.round(x), y: Math.round((y - top) * flatness) }));
  return { points, height: Math.max(...points.map(({ y }) => y)) };
}
