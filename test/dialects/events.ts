/** Passes the bytes of an event stream to a stream reader, like a relay does. */
import { createSseParser } from '../../src/core/sse.ts';
import type { StreamEventKind, StreamReader } from '../../src/dialects/contract/route-codec.ts';

/** Returns the text of a stream whose events have this data (JSON, or text such as `[DONE]`). */
export function streamOf(...datas: readonly unknown[]): string {
  return datas.map((data) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`).join('');
}

/** Reads all of `text` with `reader`. Returns the kind of each event. */
export function readStream(reader: StreamReader, text: string): StreamEventKind[] {
  const parser = createSseParser();
  const events = [...parser.push(Buffer.from(text)).events, ...parser.end().events];
  return events.map((event) => reader.read(event));
}
