/**
 * Computes node positions of a graph with d3-force. The initial positions are fixed, so a graph always looks the same.
 */
import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY, type SimulationNodeDatum } from 'd3-force';

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** This is half of d3-force's default, so the layout takes half the time. */
const ticks = 150;
/** Labels are wider than they're high, so nodes need less vertical than horizontal space. */
const flatness = 0.6;

/**
 * Computes the position of each node and the height of the picture. `edges` are pairs of node indexes, and `nodeRadius`
 * is the space to keep free for the label of a node. `passes` says how often d3-force resolves collisions in each step.
 * Narrow pictures need more passes, because their nodes easily get stuck behind each other.
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
    // Decays to 0.001 in the last tick, which is d3-force's default minimum.
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
