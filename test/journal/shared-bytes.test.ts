/** Tests that a segment contains the bytes that request bodies share only once, and that no body is ever lost. */
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import type { SettledCall } from '../../src/core/call.ts';
import { newId } from '../../src/core/ids.ts';
import { rememberRepetition } from '../../src/core/repeated-parts.ts';
import { nodeFileSystem } from '../../src/journal/file-system.ts';
import { decodeFrames, encodeFrame } from '../../src/journal/frame.ts';
import { decodeRecord } from '../../src/journal/record.ts';
import { createRecovery } from '../../src/journal/recover.ts';
import { segmentName } from '../../src/journal/segment-name.ts';
import { readWindow } from '../../src/journal/segment-reader.ts';
import { createSegmentWriter } from '../../src/journal/segment-writer.ts';
import { createRandom, type Random } from '../memory/conversations/sessions.ts';
import { createBrokenDisk } from './broken-disk.ts';
import { clockAt, emptyDatabase, factsOf, keepingLogger, noon, settledCall, withFolder } from './calls.ts';
import { withDrain } from './drain-helper.ts';

/** Joins the parts of a body and marks the first `repeated` of them as a part that other bodies may repeat. */
function bodyOf(parts: readonly string[], repeated = parts.length): Buffer {
  const body = Buffer.from(`{"messages":[${parts.join(',')}]}`);
  const start = '{"messages":['.length;
  const repeatedParts = parts.slice(0, repeated).map((_, index) => {
    const end = start + Buffer.byteLength(parts.slice(0, index + 1).join(','));
    return { start, end, fingerprint: createHash('sha256').update(body.subarray(start, end)).digest('base64') };
  });
  rememberRepetition(body, { parts: repeatedParts, newBytes: body.length });
  return body;
}

const callOf = (request: Buffer): SettledCall => settledCall({ content: { request, response: { text: 'An answer', toolCalls: [] } } });

/** A session whose history begins with 20 kB and grows by 500 bytes per turn. */
function session(turns: number): Buffer[] {
  const history = [`"${'A long system prompt. '.repeat(950)}"`];
  return Array.from({ length: turns }, (_, turn) => {
    history.push(`"${`turn ${turn} `.repeat(60)}"`);
    return bodyOf(history);
  });
}

/** Replaces bodies by strings, because Jest compares buffers byte by byte. */
const readable = (calls: readonly SettledCall[]): unknown[] =>
  calls.map(({ content, ...call }) => ({ ...call, ...content, request: content?.request.toString('latin1') }));

function openWriter(folder: string, options: Partial<Parameters<typeof createSegmentWriter>[0]> = {}) {
  return createSegmentWriter({
    folder,
    files: nodeFileSystem,
    clock: clockAt(noon),
    segmentBytes: 1_000_000,
    sync: false,
    onWritten: () => {},
    onAppended: () => {},
    failpoint: () => {},
    ...options,
  });
}

/** Reads all settled calls in windows, as the drain does. */
async function readCalls(segments: readonly { readonly file: string; readonly bytes: number }[], maxBytes?: number) {
  const calls: SettledCall[] = [];
  const windows: number[] = [];
  for (const { file, bytes } of segments) {
    for (let offset = 0; offset < bytes; ) {
      const window = await readWindow(nodeFileSystem, file, offset, bytes, maxBytes);
      expect(window.frames.length).toBeGreaterThan(0);
      windows.push(window.frames.reduce((sum, { raw }) => sum + raw.length, 0));
      for (const frame of window.frames) {
        const record = decodeRecord(frame);
        if (record.kind === 'settled') calls.push(record.call);
        // The quarantine keeps `raw`, so it has to be complete without the segment.
        const [alone] = decodeFrames(frame.raw).frames;
        expect(alone?.meta.equals(frame.meta) && alone.attachment.equals(frame.attachment)).toBe(true);
      }
      offset = window.nextOffset;
    }
  }
  return { calls, windows };
}

describe('a segment with shared request bytes', () => {
  test('stores a repeated chat history only once and restores every request body byte for byte', () =>
    withFolder(async (folder) => {
      const writer = openWriter(folder);
      const calls = session(50).map(callOf);
      for (const call of calls) await writer.append({ kind: 'settled', call });
      const [segment] = writer.segments();
      const total = calls.reduce((sum, { content }) => sum + (content?.request.length ?? 0), 0);
      expect(total).toBeGreaterThan(1_500_000);
      expect(segment?.bytes).toBeLessThan(160_000);
      expect(readable((await readCalls(writer.segments())).calls)).toEqual(readable(calls));
      await writer.close();
    }));

  test('journal records never refer to bytes in another segment', () =>
    withFolder(async (folder) => {
      const writer = openWriter(folder, { segmentBytes: 25_000 });
      const calls = session(30).map(callOf);
      for (const call of calls) await writer.append({ kind: 'settled', call });
      expect(writer.segments().length).toBeGreaterThan(2);
      for (const segment of writer.segments()) {
        const lone = join(folder, 'alone');
        await writeFile(lone, await readFile(segment.file));
        for (const { content } of (await readCalls([{ file: lone, bytes: segment.bytes }])).calls)
          expect(calls.some((call) => call.content?.request.equals(content?.request ?? Buffer.alloc(0)))).toBe(true);
      }
      expect(readable((await readCalls(writer.segments())).calls)).toEqual(readable(calls));
      await writer.close();
    }));

  test('counts the expanded size of request bodies when it limits a read of the journal', () =>
    withFolder(async (folder) => {
      const writer = openWriter(folder);
      const calls = session(40).map(callOf);
      for (const call of calls) await writer.append({ kind: 'settled', call });
      const read = await readCalls(writer.segments(), 100_000);
      expect(readable(read.calls)).toEqual(readable(calls));
      for (const bytes of read.windows) expect(bytes).toBeLessThanOrEqual(100_000);
      await writer.close();
    }));

  test('restores every request body after random edits, seals and failed writes', async () => {
    for (let seed = 1; seed <= 40; seed += 1)
      await withFolder(async (folder) => {
        const random = createRandom(seed);
        const disk = createBrokenDisk();
        const writer = openWriter(folder, { files: disk.files, segmentBytes: 20_000 + random(200_000) });
        const sessions = Array.from({ length: 3 }, () => [`"${String(random(1_000)).repeat(6_000)}"`]);
        const expected: SettledCall[] = [];
        for (let step = 0; step < 25; step += 1) {
          if (random(12) === 0) await writer.seal();
          disk.fail(random(8) === 0 ? 'EIO' : null);
          const calls = Array.from({ length: 1 + random(4) }, () => callOf(nextBody(sessions[random(3)] ?? [], random)));
          const written = await Promise.allSettled(calls.map((call) => writer.append({ kind: 'settled', call })));
          disk.fail(null);
          for (const [index, call] of calls.entries()) {
            if (written[index]?.status === 'rejected') await writer.append({ kind: 'settled', call });
            expected.push(call);
          }
        }
        const { calls } = await readCalls(writer.segments());
        const byId = new Map(calls.map((call) => [call.metadata.id, call]));
        const found = expected.flatMap(({ metadata }) => byId.get(metadata.id) ?? []);
        expect(readable(found)).toEqual(readable(expected));
        await writer.close();
      });
  });
});

/** Appends to a history, or edits it. */
function nextBody(history: string[], random: Random): Buffer {
  const message = (): string => `"${String(random(1_000_000)).repeat(1 + random(600))}"`;
  if (random(6) === 0) history[random(history.length)] = message();
  if (random(8) === 0) history.splice(1 + random(history.length));
  history.push(message());
  return bodyOf(history, random(5) === 0 ? random(history.length) : history.length);
}

test('older releases can still read the tokens and cost of a call with shared bytes', () =>
  withFolder(async (folder) => {
    const writer = openWriter(folder);
    const calls = session(2).map(callOf);
    for (const call of calls) await writer.append({ kind: 'settled', call });
    const file = await readFile(writer.segments()[0]?.file ?? '');
    const [, second] = decodeFrames(file).frames.map(({ meta }) => JSON.parse(meta.toString()));
    expect(second).toMatchObject({ kind: 'settled', facts: calls[1]?.metadata, result: calls[1]?.result, content: null });
    expect(second.shared).toBeDefined();
    await writer.close();
  }));

test('reads calls from disk if their expanded bodies need too much memory', () => {
  const calls = session(30).map(callOf);
  return withDrain(
    async ({ journal, drain, batches }) => {
      for (const call of calls) await journal.settle(call);
      drain.start();
      await drain.waitUntilDrained();
      // All records together are smaller than `recentBytes`, but their bodies aren't.
      expect(journal.segments().reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThan(200_000);
      expect(readable(batches.flat())).toEqual(readable(calls));
      const fromMemory = batches.flat().filter((call) => calls.includes(call));
      expect(fromMemory.reduce((sum, { content }) => sum + (content?.request.length ?? 0), 0)).toBeLessThan(200_000);
    },
    { recentBytes: 200_000, segmentBytes: 1_000_000 },
  );
});

test('stores a call without its text if its record refers to missing bytes', () =>
  withFolder(async (dataDir) => {
    const { metadata, result } = settledCall({ metadata: factsOf() });
    const shared = { content: { answer: { text: 'An answer', toolCalls: [] } }, pieces: [3, [0, 900_000]] };
    const meta = JSON.stringify({ kind: 'settled', facts: metadata, result, content: null, shared });
    const folder = join(dataDir, 'journal', newId(noon));
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, segmentName(1)), Buffer.concat(encodeFrame(meta, Buffer.from('{},'))));
    const logger = keepingLogger();
    const stored: SettledCall[] = [];
    const recovery = createRecovery({
      dataDir,
      ownId: 'none',
      database: emptyDatabase(),
      logger,
      store: async (_tx, calls) => stored.push(...calls),
    });
    await recovery.recover();
    await recovery.stop();
    expect(stored).toEqual([{ metadata, result, content: null }]);
    expect(logger.lines).toContainEqual(
      expect.objectContaining({ level: 'error', message: 'call stored without its text because the journal is damaged' }),
    );
    expect(await readdir(join(dataDir, 'journal', 'quarantine'))).toEqual([`${metadata.id}.record`]);
  }));
