import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { decodeFrames, encodeFrame } from '../../src/journal/frame.ts';
import { decodeRecord, encodeRecord, type JournalRecord } from '../../src/journal/record.ts';
import { attemptStart, factsOf, settledCall } from './calls.ts';

const frameOf = (meta: string, attachment: Buffer | null = null): Buffer => Buffer.concat(encodeFrame(meta, attachment));

describe('frames', () => {
  test('come back as they were written, whatever bytes the attachment has', () => {
    const bytes = fc.uint8Array({ maxLength: 300 });
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.string({ unit: 'binary' }), bytes), { maxLength: 6 }), (records) => {
        const file = Buffer.concat(records.map(([meta, attachment]) => frameOf(meta, Buffer.from(attachment))));
        const run = decodeFrames(file);
        expect(run.end).toBe('end');
        expect(run.usedBytes).toBe(file.length);
        expect(run.frames.map((frame) => [frame.meta, frame.attachment])).toEqual(
          records.map(([meta, attachment]) => [Buffer.from(meta), Buffer.from(attachment)]),
        );
      }),
    );
  });

  test('a last frame that is torn at any byte is told from a whole one, and those before it stay', () => {
    const whole = frameOf('{"a":1}', Buffer.from('body'));
    const last = frameOf('{"b":2}', Buffer.from('another body'));
    for (let cut = 1; cut < last.length; cut += 1) {
      const run = decodeFrames(Buffer.concat([whole, last.subarray(0, cut)]));
      expect(run).toMatchObject({ stop: 'cut', usedBytes: whole.length });
      expect(run.frames).toHaveLength(1);
    }
  });

  test('a frame with one wrong bit, and a file that goes on in zeros, are damaged', () => {
    const whole = frameOf('{"a":1}', Buffer.from('body'));
    const wrong = Buffer.from(whole);
    wrong[wrong.length - 1] = (wrong.at(-1) ?? 0) ^ 1;
    expect(decodeFrames(Buffer.concat([whole, wrong, whole]))).toMatchObject({ stop: 'damaged', usedBytes: whole.length });
    expect(decodeFrames(Buffer.concat([whole, Buffer.alloc(64)]))).toMatchObject({ stop: 'damaged', usedBytes: whole.length });
  });
});

describe('records', () => {
  const readBack = (record: JournalRecord): unknown => {
    const [frame] = decodeFrames(Buffer.concat(encodeRecord(record))).frames;
    return frame && decodeRecord(frame);
  };
  const answer = { text: 'yes \ud800', toolCalls: [{ name: 'search', arguments: '{}' }] };

  test.each<[string, JournalRecord]>([
    ['opened', { kind: 'opened', facts: factsOf(), attempts: [attemptStart] }],
    ['attempt', { kind: 'attempt', callId: factsOf().id, attempt: { ...attemptStart, n: 2 } }],
    ['settled with text', { kind: 'settled', call: settledCall({ content: { request: Buffer.from([0, 255, 10]), answer } }) }],
    ['settled with an empty body', { kind: 'settled', call: settledCall({ content: { request: Buffer.alloc(0), answer: null } }) }],
    ['settled without text', { kind: 'settled', call: settledCall() }],
    ['probe', { kind: 'probe' }],
  ])('%s is read as it was written', (_name, record) => {
    expect(readBack(record)).toEqual(record);
  });

  test('what is no record of this version is unreadable, with the id of its call when it has one', () => {
    const read = (meta: string) => decodeFrames(frameOf(meta)).frames.map(decodeRecord)[0];
    expect(read('{"kind":"settled","facts":{"id":"x"}}')).toEqual({ kind: 'unreadable', callId: 'x' });
    expect(read('{"kind":"from the future"}')).toEqual({ kind: 'unreadable', callId: null });
    expect(read('not json')).toEqual({ kind: 'unreadable', callId: null });
  });
});
