/** Feeds a stream reader the way a relay does: from the bytes of an event stream. */
import { createSseParser } from '../../src/core/sse.ts';
import type { StreamEventKind, StreamReader } from '../../src/dialects/contract/route-codec.ts';

/** Text of a stream whose events carry `datas` (JSON, or text such as `[DONE]`). */
export function streamOf(...datas: readonly unknown[]): string {
  return datas.map((data) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`).join('');
}

/** Lets `reader` read the whole of `text`; returns what each event meant. */
export function readStream(reader: StreamReader, text: string): StreamEventKind[] {
  const parser = createSseParser();
  const events = [...parser.push(Buffer.from(text)).events, ...parser.end().events];
  return events.map((event) => reader.read(event));
}
