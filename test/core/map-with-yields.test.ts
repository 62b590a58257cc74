import { expect, test } from '@jest/globals';
import { mapWithYields } from '../../src/core/map-with-yields.ts';

/** Takes longer than a turn is allowed to. */
function blockFor3Ms(): void {
  for (const end = performance.now() + 3; performance.now() < end; );
}

test('yields to the event loop while it maps many items, and keeps their order', async () => {
  let turns = 0;
  const results = await mapWithYields([1, 2, 3], (item) => {
    setImmediate(() => {
      turns += 1;
    });
    blockFor3Ms();
    return [item, turns];
  });
  expect(results).toEqual([
    [1, 0],
    [2, 1],
    [3, 2],
  ]);
  expect(await mapWithYields([], String)).toEqual([]);
});
