/**
 * Computes the positions of a graph's nodes with d3-force. It starts from fixed positions, so the same graph always
 * looks the same.
 */
import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY, type SimulationNodeDatum } from 'd3-force';

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** This is half of d3-force's default, because the time that a layout takes is proportional to it. */
const ticks = 150;
/** Labels are wide and low, so nodes need less vertical than horizontal distance. */
const flatness = 0.6;

/**
 * Each edge is a pair of node indexes. `nodeRadius` keeps the labels of two nodes apart. In a narrow picture, nodes only
 * get out of each other's way if we try it several times per step (`passes`). The height depends on the layout.
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
    // With this decay, the simulation reaches d3-force's default minimum of 0.001 at the last tick.
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
