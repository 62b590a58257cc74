import { expect, test } from '@jest/globals';
import { holdOpening } from '../../src/vendors/hold-opening.ts';
import type { StreamChunk, StreamEnd } from '../../src/vendors/stream.ts';

test('an opening that never ends is held within a limit', async () => {
  const chunk: StreamChunk = { bytes: Buffer.alloc(64 * 1024), isLast: false, isOpening: true };
  let read = 0;
  async function* relay(): AsyncGenerator<StreamChunk, StreamEnd> {
    for (; read < 1_000; read += 1) yield chunk;
    return { kind: 'whole' };
  }
  const { held, pending, end } = await holdOpening(relay(), chunk);
  expect({ held: held.length, pending, end }).toEqual({ held: 64, pending: null, end: null });
  expect(read).toBeLessThan(64);
});
