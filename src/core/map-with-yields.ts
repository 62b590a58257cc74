import { setImmediate as nextTurn } from 'node:timers/promises';

const maxTurnMs = 2;

/** Does the same as `items.map(convert)`, but yields to the event loop every 2 ms. */
export async function mapWithYields<Item, Result>(items: readonly Item[], convert: (item: Item) => Result): Promise<Result[]> {
  const results: Result[] = [];
  let turnEndsAt = performance.now() + maxTurnMs;
  for (const item of items) {
    results.push(convert(item));
    if (performance.now() < turnEndsAt) continue;
    await nextTurn();
    turnEndsAt = performance.now() + maxTurnMs;
  }
  return results;
}
