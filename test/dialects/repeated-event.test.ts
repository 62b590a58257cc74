import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { chat } from '../../src/dialects/chat/codec.ts';
import type { RouteCodec } from '../../src/dialects/contract/route-codec.ts';
import { messages } from '../../src/dialects/messages/codec.ts';

/** Texts as they stand in an event, most of them JSON strings. */
const literal = fc.oneof(
  { weight: 6, arbitrary: fc.string({ unit: 'binary', maxLength: 6 }).map((text) => JSON.stringify(text)) },
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

function eventOf(...around: readonly string[]): fc.Arbitrary<string> {
  return fc.tuple(fc.constantFrom(...around), literal).map(([template, text]) => template.replace('TEXT', () => text));
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

test.each<[string, RouteCodec, fc.Arbitrary<string>]>([
  ['chat', chat, chatEvents],
  ['messages', messages, messagesEvents],
])('events of %s that repeat others are read as if each were parsed', (_name, codec, event) => {
  // Different spaces before each event prevent that it repeats another one.
  const read = (events: readonly string[], isSpaced: boolean) => {
    const reader = codec.createStreamReader();
    const kinds = events.map((data, index) => reader.read({ name: '', data: isSpaced ? ' '.repeat(index) + data : data, start: 0, end: 0 }));
    return { kinds, summary: reader.summary(), finished: reader.finished() };
  };
  fc.assert(
    fc.property(fc.array(event, { maxLength: 12 }), (events) => {
      expect(read(events, false)).toEqual(read(events, true));
    }),
    { numRuns: 2_000 },
  );
});
