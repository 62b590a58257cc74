import { expect, test } from '@jest/globals';
import { holdOpening } from '../../src/vendors/hold-opening.ts';
import type { ChunkReader, StreamChunk } from '../../src/vendors/stream.ts';

test("limits how much of a stream's opening is held back", async () => {
  const chunk: StreamChunk = { kind: 'chunk', bytes: Buffer.alloc(64 * 1024), events: [], isLast: false, isOpening: true };
  let read = 0;
  const relay: ChunkReader = {
    ready: () => Promise.resolve(),
    read() {
      read += 1;
      return read < 1_000 ? chunk : { kind: 'whole' };
    },
    close() {},
  };
  const { held, end } = await holdOpening(relay, chunk);
  expect({ held: held.length, end }).toEqual({ held: 64, end: null });
  expect(read).toBeLessThan(64);
});
