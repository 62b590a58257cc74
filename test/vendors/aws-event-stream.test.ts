import { AnthropicBedrock } from '@anthropic-ai/bedrock-sdk';
import { describe, expect, test } from '@jest/globals';
import { decodeAwsEventStream } from '../../src/vendors/aws-event-stream.ts';
import { createResponseBody } from '../../src/vendors/response-body.ts';
import { chunkFrame, exceptionFrame } from '../support/aws-event-stream.ts';
import { withVariables } from '../support/cloud-identities.ts';
import { withVendor } from './fake-vendor.ts';

const events = [
  {
    type: 'message_start',
    message: { id: 'm', type: 'message', role: 'assistant', content: [], usage: { input_tokens: 1, output_tokens: 1 } },
  },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Æøå \u2028 "quoted"\n' } },
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 5 } },
  { type: 'message_stop', 'amazon-bedrock-invocationMetrics': { inputTokenCount: 1 } },
];
const frames = events.map(chunkFrame);
const whole = Buffer.concat(frames);

/** What the reader gets if the bytes arrive in these parts, and the error that ends it. */
function read(parts: readonly Buffer[]): { readonly text: string; readonly error: string | null; readonly isAborted: boolean } {
  let isAborted = false;
  const abort = (): void => {
    isAborted = true;
  };
  const source = createResponseBody({ pause: () => undefined, resume: () => undefined, abort });
  const body = decodeAwsEventStream(source);
  let text = '';
  try {
    for (const part of parts) {
      source.add(part);
      for (let taken = body.take(); taken !== null; taken = body.take()) text += taken.toString();
    }
    source.end();
    for (let taken = body.take(); taken !== null; taken = body.take()) text += taken.toString();
  } catch (error) {
    return { text, error: error instanceof Error ? error.message : 'unknown', isAborted };
  }
  return { text, error: body.isEnded() ? null : 'not ended', isAborted };
}

/** The data of server-sent events. */
function dataOf(text: string): unknown[] {
  return [...text.matchAll(/^event: (\w+)\ndata: ([^\n]*)\n\n/gm)].map(([, , data = '']) => JSON.parse(data));
}

describe('decoding AWS event streams', () => {
  test("decodes to the same events that Anthropic's SDK for Bedrock reads", async () => {
    const fromSdk = await withVendor(
      (response) => response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' }).end(whole),
      ({ url }) =>
        withVariables({}, async () => {
          const sdk = new AnthropicBedrock({ baseURL: url, apiKey: 'key', awsRegion: 'us-east-1' });
          return Array.fromAsync(await sdk.messages.create({ model: 'm', max_tokens: 1, messages: [], stream: true }));
        }),
    );
    const { text, error } = read([whole]);
    expect(error).toBeNull();
    expect(dataOf(text)).toEqual(events);
    expect(dataOf(text)).toEqual(fromSdk);
    expect(text).toMatch(/^event: message_start\ndata: \{.*\n\nevent: content_block_start\n/);
  });

  test('decodes an AWS event stream in chunks of any size', () => {
    const { text: expected } = read([whole]);
    for (const size of [1, 7, 100, 1_000]) {
      const parts = Array.from({ length: Math.ceil(whole.length / size) }, (_, index) => whole.subarray(index * size, (index + 1) * size));
      expect(read(parts)).toEqual({ text: expected, error: null, isAborted: false });
    }
  });

  test('skips AWS events without a type, such as keep-alives', () => {
    expect(read([chunkFrame({ ping: 1 }), ...frames]).text).toBe(read(frames).text);
  });
});

describe('an exception in an AWS event stream', () => {
  test.each([
    ['throttlingException', 'rate_limit_error'],
    ['serviceUnavailableException', 'overloaded_error'],
    ['modelTimeoutException', 'timeout_error'],
    ['validationException', 'invalid_request_error'],
    ['modelStreamErrorException', 'api_error'],
    ['internalServerException', 'api_error'],
  ])('turns the AWS exception %s into an error event of the dialect', (name, type) => {
    const { text } = read([...frames.slice(0, 2), exceptionFrame(name, 'Try later')]);
    expect(dataOf(text).at(-1)).toEqual({ type: 'error', error: { type, message: `${name}: Try later` } });
  });
});

describe('a damaged AWS event stream', () => {
  const [first = Buffer.alloc(0), second = Buffer.alloc(0)] = frames;
  const before = read([first]).text;
  const changed = (at: number): Buffer => {
    const bytes = Buffer.from(second);
    bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
    return bytes;
  };

  test.each([
    ['a changed length', changed(2), /a prelude has the wrong checksum/],
    ['a changed payload', changed(second.length - 10), /an event has the wrong checksum/],
    ['a changed checksum', changed(second.length - 1), /an event has the wrong checksum/],
  ])('aborts an AWS event stream at %s', (_name, damaged, message) => {
    expect(read([Buffer.concat([first, damaged])])).toEqual({ text: before, error: expect.stringMatching(message), isAborted: true });
  });

  test('aborts an AWS event stream if its end is missing', () => {
    expect(read([first, second.subarray(0, -1)])).toMatchObject({
      text: before,
      error: 'the event stream ended in the middle of an event',
    });
  });

  test('aborts an AWS event stream at a frame that is too large', () => {
    const large = chunkFrame({ type: 'content_block_delta', delta: { text: 'x'.repeat(1_000_000) } });
    expect(read([first, large.subarray(0, 100)])).toMatchObject({ text: before, error: expect.stringContaining('larger than') });
  });
});
