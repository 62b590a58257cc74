import { expect, jest, test } from '@jest/globals';
import fc from 'fast-check';
import { createSseParser, type SseEvent } from '../../src/core/sse.ts';
import { chat } from '../../src/dialects/chat/codec.ts';
import type { RouteCodec, StreamEventKind } from '../../src/dialects/contract/route-codec.ts';
import { createRepeatedEvent } from '../../src/dialects/json/repeated-event.ts';
import { messages } from '../../src/dialects/messages/codec.ts';

/** Generates text as it appears in an event, usually as a JSON string. */
const literal = fc.oneof(
  { weight: 6, arbitrary: fc.string({ unit: 'binary', maxLength: 6 }).map((text) => JSON.stringify(text)) },
  { weight: 3, arbitrary: fc.constantFrom('" word"', '"grüße"', '"漢字"', String.raw`"\n\u00e9"`) },
  fc.constantFrom(
    '"',
    '""',
    '"a","role":"assistant"',
    '"a","content":"b"',
    '"a","text":"b"',
    String.raw`"\u0061"`,
    String.raw`"\"`,
    '"\t"',
    'null',
    '1',
    '["a"]',
  ),
);

/** Generates the data of events. Most of them have the first form. */
function eventOf(usual: string, ...others: readonly string[]): fc.Arbitrary<string> {
  const around = fc.oneof({ weight: 2, arbitrary: fc.constant(usual) }, fc.constantFrom(...others));
  return fc.tuple(around, literal).map(([template, text]) => template.replace('TEXT', () => text));
}

const chatEvents = eventOf(
  '{"id":"a","choices":[{"index":0,"delta":{"content":TEXT},"finish_reason":null}]}',
  '{"id":"a","choices":[{"index":0,"delta":{"content":TEXT},"finish_reason":null}],"usage":null}',
  '{"id":"a","choices":[{"index":0,"delta":{"content":"b"},"finish_reason":TEXT}]}',
  '{"id":"a","choices":[{"index":1,"delta":{"content":TEXT},"finish_reason":null}]}',
  '{"choices":[{"index":0,"delta":{"content":TEXT,"content":"b"}}]}',
  '{"content":TEXT,"choices":[{"index":0,"delta":{"content":"a"}}]}',
  '{"content":"a","choices":[{"index":0,"delta":{"content":TEXT}}]}',
  '{"choices":[{"index":0,"delta":{"refusal":TEXT}}]}',
  '{"choices":[{"index":0,"delta":{"content":TEXT,"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]}}]}',
  '{"choices":[{"index":0,"delta":{"content":TEXT}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}',
  '{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}',
);
const messagesEvents = eventOf(
  '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":TEXT}}',
  '{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":TEXT}}',
  '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a","text":TEXT}}',
  '{"type":"content_block_delta","text":TEXT,"index":0,"delta":{"type":"text_delta","text":"a"}}',
  '{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":TEXT}}',
  '{"type":TEXT,"index":0,"delta":{"type":"text_delta","text":"a"}}',
);

/** The lines before the data and the end of the event, both in the usual form and in other forms. */
const forms = [
  ['', '\n\n'],
  ['event: content_block_delta\n', '\n\n'],
  ['', '\r\n\r\n'],
  ['', '\n: note\n\n'],
  ['event: other\n', '\n\n'],
] as const;

test.each<[string, RouteCodec, fc.Arbitrary<string>]>([
  ['chat', chat, chatEvents],
  ['messages', messages, messagesEvents],
])('reads repeated %s events correctly without parsing each one', (_name, codec, event) => {
  const parse = jest.spyOn(JSON, 'parse');
  /** Reads a stream in pieces, and counts how often it parses JSON. */
  const read = (pieces: readonly Buffer[]) => {
    const parser = createSseParser();
    const reader = codec.createStreamReader();
    const kinds: StreamEventKind[] = [];
    const readEvent = (event: SseEvent): void => void kinds.push(reader.read(event));
    parse.mockClear();
    for (const piece of pieces) parser.scan(piece, readEvent);
    parser.scanEnd(readEvent);
    return { parsed: parse.mock.calls.length, result: { kinds, summary: reader.summary(), finished: reader.finished() } };
  };
  const streams = fc.array(fc.tuple(fc.oneof({ weight: 3, arbitrary: fc.constantFrom(0, 1) }, fc.nat(forms.length - 1)), event), {
    maxLength: 12,
  });
  let saved = 0;
  fc.assert(
    fc.property(streams, fc.array(fc.nat(), { maxLength: 3 }), (events, cuts) => {
      const write = (pad: (index: number) => string): Buffer =>
        Buffer.from(events.map(([form, data], index) => `${forms[form]?.[0]}data: ${pad(index)}${data}${forms[form]?.[1]}`).join(''));
      const bytes = write(() => '');
      const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
      const { parsed, result } = read([0, ...places].map((from, index) => bytes.subarray(from, places[index] ?? bytes.length)));
      // Different spaces before each event mean that no event repeats another one, so all of them are parsed.
      const singly = read([write((index) => ' '.repeat(index + 1))]);
      expect(result).toEqual(singly.result);
      saved += singly.parsed - parsed;
    }),
    { numRuns: 1_000 },
  );
  parse.mockRestore();
  expect(saved).toBeGreaterThan(50);
});

test("doesn't keep a stream event of several megabytes as a template", () => {
  const data = (text: string): string => JSON.stringify({ text });
  const createEvents = () => createRepeatedEvent({ member: 'text', readText: (json) => JSON.parse(json).text });
  const [short, long] = [createEvents(), createEvents()];
  short.learn(data('a'), 'a');
  long.learn(data('a'.repeat(1e6)), 'a'.repeat(1e6));
  expect([short.read(data('b')), long.read(data('b'))]).toEqual(['b', null]);
});
