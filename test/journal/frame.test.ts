import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createFrameBuffer, decodeFrames, decodeInTurns, encodeFrame } from '../../src/journal/frame.ts';
import { decodeRecord, encodeRecord, type JournalRecord } from '../../src/journal/record.ts';
import { attemptStart, factsOf, settledCall } from './calls.ts';

const frameOf = (meta: string, attachment: Buffer | null = null): Buffer => Buffer.concat(encodeFrame(meta, attachment));

/** Returns bytes as text, because Jest takes seconds to compare large buffers. */
const readable = ({ frames, ...rest }: ReturnType<typeof decodeFrames>) => ({
  ...rest,
  frames: frames.map(({ meta, attachment, raw }) => [meta, attachment, raw].map((bytes) => bytes.toString('latin1'))),
});

describe('journal frames', () => {
  test('yields to the event loop while computing the checksums of large journal frames', async () => {
    const attachment = Buffer.alloc(5 * 1_024 * 1_024, 'text');
    const file = Buffer.concat([frameOf('{"n":1}'), frameOf('{"n":2}', attachment), frameOf('{"n":3}')]);
    const frames = createFrameBuffer();
    for (const [meta, attached] of [
      ['{"n":1}', null],
      ['{"n":2}', attachment],
      ['{"n":3}', null],
    ] as const)
      frames.add([meta], attached);
    let turns = 0;
    let isDone = false;
    const counting = (async () => {
      for (; !isDone; turns += 1) await nextTurn();
    })();
    await frames.addChecksums();
    expect(turns).toBeGreaterThanOrEqual(4);
    expect(Buffer.concat(frames.buffers()).equals(file)).toBe(true);
    turns = 0;
    expect(readable(await decodeInTurns(file))).toEqual(readable(decodeFrames(file)));
    expect(turns).toBeGreaterThanOrEqual(4);
    isDone = true;
    await counting;
    file[file.length - 100] = 0;
    const first = decodeFrames(file);
    expect(first).toMatchObject({ end: 'damaged', usedBytes: frameOf('{"n":1}').length });
    expect(readable(await decodeInTurns(file))).toEqual(readable(first));
  });

  test('decodes every encoded journal frame, whatever its attachment contains', () => {
    const bytes = fc.uint8Array({ maxLength: 300 });
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.string({ unit: 'binary' }), bytes), { maxLength: 6 }), (records) => {
        const file = Buffer.concat(records.map(([meta, attachment]) => frameOf(meta, Buffer.from(attachment))));
        const decoded = decodeFrames(file);
        expect(decoded.end).toBe('end');
        expect(decoded.usedBytes).toBe(file.length);
        expect(decoded.frames.map((frame) => [frame.meta, frame.attachment])).toEqual(
          records.map(([meta, attachment]) => [Buffer.from(meta), Buffer.from(attachment)]),
        );
      }),
    );
  });

  test('encoding journal frames into a reusable buffer keeps them in order', () => {
    const frames = createFrameBuffer();
    const bytes = fc.tuple(fc.uint8Array({ maxLength: 300 }), fc.constantFrom(0, 0, 1_000, 100_000, 300_000));
    const json = fc.array(fc.string({ unit: 'binary' }), { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(fc.array(fc.tuple(json, fc.option(bytes)), { maxLength: 8 }), (records) => {
        const expected = records.map(([meta, attachment]) => {
          const attached = attachment && Buffer.concat([attachment[0], Buffer.alloc(attachment[1], 7)]);
          frames.add(meta, attached);
          return frameOf(meta.join(''), attached);
        });
        const file = Buffer.concat(expected);
        expect(frames.length).toBe(file.length);
        expect(Buffer.concat(frames.buffers()).equals(file)).toBe(true);
        frames.clear();
        expect([frames.length, frames.buffers()]).toEqual([0, []]);
      }),
    );
  });

  test('decodes all journal frames before a truncated last frame', () => {
    const complete = frameOf('{"a":1}', Buffer.from('body'));
    const last = frameOf('{"b":2}', Buffer.from('another body'));
    for (let bytes = 1; bytes < last.length; bytes += 1) {
      const decoded = decodeFrames(Buffer.concat([complete, last.subarray(0, bytes)]));
      expect(decoded).toMatchObject({ end: 'truncated', usedBytes: complete.length });
      expect(decoded.frames).toHaveLength(1);
    }
  });

  test('reports a journal frame as damaged if any bit is flipped', () => {
    const complete = frameOf('{"a":1}', Buffer.from('body'));
    const wrong = Buffer.from(complete);
    wrong[wrong.length - 1] = (wrong.at(-1) ?? 0) ^ 1;
    expect(decodeFrames(Buffer.concat([complete, wrong, complete]))).toMatchObject({ end: 'damaged', usedBytes: complete.length });
    expect(decodeFrames(Buffer.concat([complete, Buffer.alloc(64)]))).toMatchObject({ end: 'damaged', usedBytes: complete.length });
  });
});

describe('journal records', () => {
  const readBack = (record: JournalRecord): unknown => {
    const [frame] = decodeFrames(Buffer.concat(encodeRecord(record))).frames;
    return frame && decodeRecord(frame);
  };
  const response = { text: 'yes \ud800', toolCalls: [{ name: 'search', arguments: '{}' }] };

  test.each<[string, JournalRecord]>([
    ['opened', { kind: 'opened', metadata: factsOf(), attempts: [attemptStart] }],
    ['attempt', { kind: 'attempt', callId: factsOf().id, attempt: { ...attemptStart, n: 2 } }],
    ['settled with text', { kind: 'settled', call: settledCall({ content: { request: Buffer.from([0, 255, 10]), response } }) }],
    ['settled with an empty body', { kind: 'settled', call: settledCall({ content: { request: Buffer.alloc(0), response: null } }) }],
    ['settled without text', { kind: 'settled', call: settledCall() }],
    ['probe', { kind: 'probe' }],
  ])('decodes the record %s unchanged', (_name, record) => {
    expect(readBack(record)).toEqual(record);
  });

  test('still writes journal records in the format that older versions read', () => {
    const call = settledCall({ content: { request: Buffer.from('{}'), response } });
    const { metadata, result } = call;
    const metaOf = (record: JournalRecord): unknown =>
      decodeFrames(Buffer.concat(encodeRecord(record))).frames.map(({ meta, attachment }) => [
        JSON.parse(meta.toString()),
        attachment.toString(),
      ])[0];
    expect(metaOf({ kind: 'opened', metadata, attempts: [attemptStart] })).toEqual([
      { kind: 'opened', facts: metadata, attempts: [attemptStart] },
      '',
    ]);
    expect(metaOf({ kind: 'attempt', callId: 'x', attempt: attemptStart })).toEqual([
      { kind: 'attempt', callId: 'x', attempt: attemptStart },
      '',
    ]);
    expect(metaOf({ kind: 'settled', call })).toEqual([{ kind: 'settled', facts: metadata, result, content: { answer: response } }, '{}']);
  });

  test('reports the call id in a journal record of unknown kind', () => {
    const read = (meta: string) => decodeFrames(frameOf(meta)).frames.map(decodeRecord)[0];
    expect(read('{"kind":"settled","facts":{"id":"x"}}')).toEqual({ kind: 'unreadable', callId: 'x' });
    expect(read('{"kind":"from the future"}')).toEqual({ kind: 'unreadable', callId: null });
    expect(read('not json')).toEqual({ kind: 'unreadable', callId: null });
  });
});
