/** Encodes streams in the binary format of AWS, using AWS's own encoder. */
import { EventStreamCodec } from '@smithy/core/event-streams';

const codec = new EventStreamCodec(
  (bytes) => (typeof bytes === 'string' ? bytes : Buffer.from(bytes).toString('utf8')),
  (text) => Buffer.from(text),
);

function encode(headers: Readonly<Record<string, string>>, payload: object): Buffer {
  const typed = Object.entries(headers).map(([name, value]) => [name, { type: 'string' as const, value }] as const);
  return Buffer.from(codec.encode({ headers: Object.fromEntries(typed), body: Buffer.from(JSON.stringify(payload)) }));
}

/**
 * Creates a frame like the ones that Bedrock sends for each event of a model. `p` is padding that hides the length of
 * the text.
 */
export function chunkFrame(event: object): Buffer {
  const headers = { ':event-type': 'chunk', ':content-type': 'application/json', ':message-type': 'event' };
  return encode(headers, { bytes: Buffer.from(JSON.stringify(event)).toString('base64'), p: 'abcdef' });
}

export function exceptionFrame(type: string, message: string): Buffer {
  return encode({ ':exception-type': type, ':content-type': 'application/json', ':message-type': 'exception' }, { message });
}
