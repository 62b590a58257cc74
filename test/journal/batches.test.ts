import { expect, test } from '@jest/globals';
import { rememberRepetition } from '../../src/core/repeated-parts.ts';
import { createBatchStore } from '../../src/journal/batch-store.ts';
import { emptyDatabase, keepingLogger, settledCall } from './calls.ts';

test('limits a batch to 500 calls and 4 MiB of new text', async () => {
  const batches: number[] = [];
  const store = createBatchStore({
    database: emptyDatabase(),
    store: async (_tx, batch) => batches.push(batch.length),
    quarantine: {
      addRecord: () => Promise.reject(new Error('not expected')),
      addSegment: () => Promise.reject(new Error('not expected')),
    },
    logger: keepingLogger(),
    failpoint: () => undefined,
  });
  const calls = (count: number, bytes: number) =>
    Array.from({ length: count }, () => settledCall({ content: { request: Buffer.alloc(bytes), response: null } }));
  await store.storeAll([...calls(1_001, 10), ...calls(1, 5_000_000), ...calls(5, 2_000_000), ...calls(1, 1)]);
  expect(batches).toEqual([500, 500, 1, 1, 2, 2, 2]);
  batches.length = 0;
  const repeating = calls(200, 100_000);
  for (const { content } of repeating) if (content) rememberRepetition(content.request, { parts: [], newBytes: 10_000 });
  await store.storeAll(repeating);
  expect(batches).toEqual([200]);
});
