/** Tests the layout of the graph. */
import { expect, test } from '@jest/globals';
import { layoutGraph, type Point } from '../../../src/console/memory/graph-layout.ts';

const wide = { width: 800, nodeRadius: 70, passes: 1 };
const narrow = { width: 244, nodeRadius: 52, passes: 3 };
/** Connects the nodes from `first` to `last` in a ring. */
const ring = (first: number, last: number): [number, number][] =>
  Array.from({ length: last - first + 1 }, (_, index) => [first + index, index === last - first ? first : first + index + 1]);
const distance = (one: Point, other: Point): number => Math.hypot(one.x - other.x, one.y - other.y);

test('lays out the same graph the same way every time', () => {
  expect(layoutGraph(20, ring(0, 19), wide)).toEqual(layoutGraph(20, ring(0, 19), wide));
});

test.each([
  [2, wide],
  [12, wide],
  [40, wide],
  [2, narrow],
  [12, narrow],
  [60, narrow],
])('draws %i nodes in %j without overlapping labels', (nodes, format) => {
  const { points, height } = layoutGraph(nodes, ring(0, nodes - 1), format);
  const [right, below] = format === wide ? [100, 35] : [96, 22];
  for (const [index, one] of points.entries()) {
    expect(one.x >= 0 && one.x <= format.width && one.y >= 0 && one.y <= height).toBe(true);
    for (const other of points.slice(0, index)) expect(Math.abs(one.x - other.x) >= right || Math.abs(one.y - other.y) >= below).toBe(true);
  }
});

test('lays out a graph with a single node', () => {
  expect(layoutGraph(1, [[0, 0]], wide).points).toEqual([{ x: expect.any(Number), y: 0 }]);
});

test('draws connected nodes closer together', () => {
  const { points } = layoutGraph(10, [...ring(0, 4), ...ring(5, 9)], wide);
  const meanDistance = (pairs: [number, number][]): number =>
    pairs.reduce((sum, [one, other]) => sum + distance(points[one] ?? { x: 0, y: 0 }, points[other] ?? { x: 0, y: 0 }), 0) / pairs.length;
  const across = [0, 1, 2, 3, 4].flatMap((one) => [5, 6, 7, 8, 9].map((other): [number, number] => [one, other]));
  expect(meanDistance([...ring(0, 4), ...ring(5, 9)])).toBeLessThan(meanDistance(across));
});
