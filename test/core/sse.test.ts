import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createSseParser, formatEvent, SseEventTooLargeError } from '../../src/core/sse.ts';
import { isExhaustive } from '../support/exhaustive.ts';

interface Read {
  readonly events: { name: string; data: string; bytes: string }[];
  /** All bytes returned by `push`, and those returned by `end`. */
  readonly whole: string;
  readonly rest: string;
}

/** Parses `chunks` and returns each event with its bytes. */
function read(chunks: readonly Buffer[]): Read {
  const parser = createSseParser();
  const events: Read['events'] = [];
  const take = ({ bytes, events: found }: ReturnType<typeof parser.push>): Buffer => {
    let at = 0;
    for (const { name, data, start, end } of found) {
      expect(start).toBe(at);
      events.push({ name, data, bytes: bytes.toString('utf8', start, end) });
      at = end;
    }
    expect(at).toBe(bytes.length);
    return Buffer.from(bytes);
  };
  const whole = Buffer.concat(chunks.map((chunk) => take(parser.push(chunk))));
  const rest = take(parser.end());
  return { events, whole: whole.toString(), rest: rest.toString() };
}

function readText(text: string): { name: string; data: string }[] {
  return read([Buffer.from(text)]).events.map(({ name, data }) => ({ name, data }));
}

function bytewise(bytes: Buffer): Buffer[] {
  return [...bytes].map((byte) => Buffer.of(byte));
}

const lineEnd = fc.constantFrom('\n', '\r\n', '\r');
const lineText = fc.oneof(
  fc.constantFrom(
    'data',
    'data:',
    'data: [DONE]',
    'event: ping',
    ': keep-alive',
    ':',
    'id: 1',
    'retry: 10',
    'other: x',
    'data: {"a":1}',
    'data:no space',
    'data:  two',
  ),
  fc.string({ unit: 'grapheme', maxLength: 8 }).map((text) => `data: ${text.replace(/[\r\n]/g, '')}`),
);
/** Streams of lines and blank lines, with one kind of line ending or a mixture. */
const streamText = fc.oneof(
  fc
    .tuple(fc.array(fc.oneof(lineText, fc.constant('')), { maxLength: 12 }), lineEnd)
    .map(([lines, end]) => lines.map((line) => line + end).join('')),
  fc
    .array(fc.tuple(fc.oneof(lineText, fc.constant('')), lineEnd), { maxLength: 12 })
    .map((lines) => lines.map((parts) => parts.join('')).join('')),
);

describe('the stream parser', () => {
  test('parses the same SSE events wherever the bytes are split into chunks', () => {
    fc.assert(
      fc.property(streamText, fc.array(fc.nat(), { maxLength: 6 }), (text, cuts) => {
        const bytes = Buffer.from(text);
        const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
        const chunks = [0, ...places].map((from, index) => bytes.subarray(from, places[index] ?? bytes.length));
        const atOnce = read([bytes]);
        const inPieces = read(chunks);
        expect(inPieces.events).toEqual(atOnce.events);
        expect(inPieces.whole + inPieces.rest).toBe(text);
        expect(inPieces.events.map((event) => event.bytes).join('')).toBe(text);
        const singly = read(bytewise(bytes));
        expect(singly.events).toEqual(atOnce.events);
        expect(singly.whole + singly.rest).toBe(text);
      }),
      { numRuns: isExhaustive ? 1_000 : 250 },
    );
  });

  test.each([
    ['a single line', 'data: a\n\n', [{ name: '', data: 'a' }]],
    ['a line without a space after the colon', 'data:a\n\n', [{ name: '', data: 'a' }]],
    ['a line with two spaces after the colon', 'data:  a\n\n', [{ name: '', data: ' a' }]],
    ['CRLF line endings', 'event: x\r\ndata: a\r\n\r\n', [{ name: 'x', data: 'a' }]],
    ['CR line endings', 'event: x\rdata: a\r\r', [{ name: 'x', data: 'a' }]],
    ['mixed line endings in one event', 'event: x\rdata: a\r\ndata: b\n\r', [{ name: 'x', data: 'a\nb' }]],
    ['several data lines', 'data: a\ndata:\ndata: b\n\n', [{ name: '', data: 'a\n\nb' }]],
    ['a data line without a colon', 'data\n\n', [{ name: '', data: '' }]],
    [
      'comments',
      ': hello\n\n:\ndata: a\n\n',
      [
        { name: '', data: '' },
        { name: '', data: 'a' },
      ],
    ],
    ['other fields', 'id: 7\nretry: 5\nfoo\ndata: a\n\n', [{ name: '', data: 'a' }]],
    ['field names that start with data', 'database: a\n data: b\n\n', [{ name: '', data: '' }]],
    ['the last of several event lines', 'event: a\nevent: b\ndata: c\n\n', [{ name: 'b', data: 'c' }]],
    [
      'two events',
      'data: a\n\ndata: b\n\n',
      [
        { name: '', data: 'a' },
        { name: '', data: 'b' },
      ],
    ],
    [
      'extra blank lines',
      'data: a\n\n\n\n',
      [
        { name: '', data: 'a' },
        { name: '', data: '' },
        { name: '', data: '' },
      ],
    ],
    ['a Unicode line separator as text', 'data: a\u2028b\u0085c\n\n', [{ name: '', data: 'a\u2028b\u0085c' }]],
    ['a byte-order mark before the first line', '\ufeffdata: a\n\n', [{ name: '', data: 'a' }]],
    ['a byte-order mark with CRLF line endings', '\ufeffevent: x\r\ndata: a\r\n\r\n', [{ name: 'x', data: 'a' }]],
    [
      'a later byte-order mark as text',
      'data: \ufeffa\n\n\ufeffdata: b\n\n',
      [
        { name: '', data: '\ufeffa' },
        { name: '', data: '' },
      ],
    ],
  ])('parses %s', (_name, text, events) => {
    expect(readText(text)).toEqual(events);
    expect(read(bytewise(Buffer.from(text))).events.map(({ name, data }) => ({ name, data }))).toEqual(events);
  });

  test('decodes UTF-8 characters that are split between chunks', () => {
    const bytes = Buffer.from('data: grüße 漢字 😀\n\n');
    for (let cut = 0; cut <= bytes.length; cut += 1) {
      expect(read([bytes.subarray(0, cut), bytes.subarray(cut)]).events).toEqual([
        { name: '', data: 'grüße 漢字 😀', bytes: bytes.toString() },
      ]);
    }
  });
});

describe('push', () => {
  test('returns an SSE event as soon as its blank line arrives', () => {
    const parser = createSseParser();
    expect(parser.push(Buffer.from('data: a\n')).events).toEqual([]);
    const { bytes, events } = parser.push(Buffer.from('\ndata: b'));
    expect(events).toEqual([{ name: '', data: 'a', start: 0, end: 9 }]);
    expect(bytes.toString()).toBe('data: a\n\n');
    expect(parser.push(Buffer.from('\r\n\r\n')).bytes.toString()).toBe('data: b\r\n\r\n');
  });

  test("doesn't modify the bytes of earlier chunks", () => {
    const parser = createSseParser();
    const first = Buffer.from('data: a\n\ndata: b');
    const { bytes } = parser.push(first);
    parser.push(Buffer.from('c\n\n'));
    expect(bytes.toString()).toBe('data: a\n\n');
    expect(first.toString()).toBe('data: a\n\ndata: b');
  });

  test('accepts an SSE event that is split into thousands of chunks', () => {
    const data = 'x'.repeat(3_000_000);
    const bytes = Buffer.from(`data: ${data}\n\n`);
    const chunks = Array.from({ length: Math.ceil(bytes.length / 1000) }, (_, index) => bytes.subarray(index * 1000, (index + 1) * 1000));
    const { events, whole } = read(chunks);
    expect(events).toHaveLength(1);
    expect(events[0]?.data === data).toBe(true);
    expect(whole === bytes.toString()).toBe(true);
  });

  test('rejects an SSE event over the size limit', () => {
    const parser = createSseParser(100);
    for (let n = 0; n < 50; n += 1) expect(parser.push(Buffer.from('data: 0123456789\n\n')).events).toHaveLength(1);
    const push = (): void => {
      for (let n = 0; n < 50; n += 1) parser.push(Buffer.from('0123456789'));
    };
    expect(push).toThrow(SseEventTooLargeError);
    expect(() => createSseParser(100).push(Buffer.from(`data: ${'x'.repeat(200)}`))).toThrow('larger than 100 bytes');
  });
});

describe('end', () => {
  test.each([
    ['no blank line', 'data: a\n\ndata: b\n', 'data: b\n', { name: '', data: 'b' }],
    ['no line end', 'data: a\n\ndata: b', 'data: b', { name: '', data: 'b' }],
    ['several lines', 'data: a\n\nevent: e\ndata: b\ndata: c', 'event: e\ndata: b\ndata: c', { name: 'e', data: 'b\nc' }],
    ['CRLF', 'data: a\r\n\r\ndata: b\r\n', 'data: b\r\n', { name: '', data: 'b' }],
  ])('returns the unfinished last event: %s', (_name, text, rest, event) => {
    const parser = createSseParser();
    parser.push(Buffer.from(text));
    const ended = parser.end();
    expect(ended.bytes.toString()).toBe(rest);
    expect(ended.events).toEqual([{ ...event, start: 0, end: rest.length }]);
    expect(parser.end()).toEqual({ bytes: Buffer.alloc(0), events: [] });
  });

  test('treats a trailing CR as a line ending at the end of the stream', () => {
    const parser = createSseParser();
    expect(parser.push(Buffer.from('data: a\r\r')).events).toEqual([]);
    const { bytes, events } = parser.end();
    expect(events).toEqual([{ name: '', data: 'a', start: 0, end: 9 }]);
    expect(bytes.toString()).toBe('data: a\r\r');
  });

  test('returns no event at the end of the stream if there are no bytes left', () => {
    expect(createSseParser().end()).toEqual({ bytes: Buffer.alloc(0), events: [] });
  });
});

test('formatEvent writes events that the SSE parser can read back', () => {
  fc.assert(
    fc.property(fc.option(fc.constantFrom('error', 'message_stop')), fc.jsonValue(), (name, value) => {
      const [event, ...more] = readText(formatEvent(name, value));
      expect(more).toEqual([]);
      expect(event).toEqual({ name: name ?? '', data: JSON.stringify(value) });
    }),
  );
});
