/**
 * Writes a response to the socket, with the faults in its script. It's done when everything has been written, or when
 * the client disconnects. If the client is slow, we buffer at most one event.
 */
import type { ServerResponse } from 'node:http';
import { setImmediate as nextTick } from 'node:timers/promises';
import type { Family } from '../../../src/demo-vendor/errors.ts';
import { waitMs } from '../../../src/demo-vendor/wait.ts';
import { endSocket, streamHeaders, writePart } from '../../../src/demo-vendor/write-response.ts';
import { anthropic } from './families.ts';
import type { ScriptedResponse, ScriptedStream } from './response.ts';
import type { Script } from './scripts.ts';

export interface ScriptedDelivery {
  readonly outgoing: ScriptedResponse;
  readonly script: Script;
  readonly family: Family;
  /** The vendor's default time between two deltas. */
  readonly paceMs: number;
  /** Headers that every response of this vendor family has. */
  readonly headers: Readonly<Record<string, string>>;
}

export async function writeScripted(response: ServerResponse, delivery: ScriptedDelivery): Promise<void> {
  const { outgoing, script, headers } = delivery;
  switch (outgoing.kind) {
    case 'silence':
      return;
    case 'stream': {
      response.writeHead(200, { ...headers, ...streamHeaders });
      await writeStream(response, outgoing.stream, delivery);
      return;
    }
    case 'body': {
      const isJson = outgoing.headers['content-type'] === 'application/json';
      const text = script.numbers && isJson && typeof outgoing.body === 'string' ? withOddMembers(outgoing.body) : outgoing.body;
      const body = typeof text === 'string' ? Buffer.from(text) : text;
      writeBody(response, outgoing.status, { ...headers, ...outgoing.headers }, body, script);
      return;
    }
    default:
      return outgoing satisfies never;
  }
}

function writeBody(response: ServerResponse, status: number, headers: Record<string, string>, body: Buffer, { cut }: Script): void {
  response.writeHead(status, { ...headers, 'content-length': String(body.length) });
  // Only cut off successes. Errors have to arrive in full.
  if (cut === null || cut.kind === 'end' || status !== 200) {
    response.end(body);
    return;
  }
  response.flushHeaders();
  if (cut.after !== null && cut.after > 0) response.write(body.subarray(0, body.length >> 1));
  if (cut.kind === 'break') endSocket(response);
}

async function writeStream(response: ServerResponse, stream: ScriptedStream, delivery: ScriptedDelivery): Promise<void> {
  const { script, family } = delivery;
  const { cut } = script;
  response.flushHeaders();
  if (cut?.after !== null) {
    await writeEvents(response, stream.opening, script);
    await writeEvents(response, stream.deltas, script, { paceMs: script.paceMs ?? delivery.paceMs, limit: cut?.after ?? Infinity });
  }
  if (cut === null) await writeEvents(response, stream.closing, script);
  if (cut?.kind === 'error') await writeEvents(response, [stream.error?.() ?? errorEvent(family)], script);
  if (response.destroyed) return;
  if (cut?.kind === 'break') endSocket(response);
  else if (cut?.kind !== 'stall') response.end();
}

function errorEvent(family: Family): string {
  if (family === anthropic) return `event: error\ndata: ${JSON.stringify(family.errorBody({ status: 529, message: 'Overloaded' }))}\n\n`;
  return `data: ${JSON.stringify(family.errorBody({ status: 500, message: 'The server had an error while answering.' }))}\n\n`;
}

/** Writes at most `limit` events. Stops when the client has disconnected. */
async function writeEvents(
  response: ServerResponse,
  events: Iterable<string>,
  script: Script,
  { paceMs, limit }: { paceMs: number; limit: number } = { paceMs: 0, limit: Infinity },
): Promise<void> {
  let written = 0;
  for (const event of events) {
    if (written === limit) return;
    if (paceMs > 0 && written > 0) await waitMs(response, paceMs);
    await writeEvent(response, event, script);
    if (response.destroyed) return;
    written += 1;
  }
}

async function writeEvent(response: ServerResponse, event: string, script: Script): Promise<void> {
  const text = script.numbers ? event.replace('data: {', `data: ${oddMembers}`) : event;
  if (script.wire === 'plain') return writePart(response, text);
  for (const part of script.wire === 'crlf' ? crlfParts(text) : byteParts(text)) {
    await writePart(response, part);
    // Write one part per iteration of the event loop, so that the client's socket reads them separately.
    await nextTick();
  }
}

/**
 * Returns a comment and the event, both with CRLF. They're split inside their first multi-byte character, and inside
 * both closing line endings.
 */
function crlfParts(event: string): readonly Buffer[] {
  const bytes = Buffer.from(`: über den Draht\r\n\r\n${event.replaceAll('\n', '\r\n')}`);
  const payload = bytes.findIndex((byte, index) => byte >= 0x80 && index > commentBytes);
  const cuts = [3, ...(payload === -1 ? [] : [payload + 1]), bytes.length - 3, bytes.length - 1];
  return cuts.map((end, index) => bytes.subarray(index === 0 ? 0 : cuts[index - 1], end)).concat(bytes.subarray(bytes.length - 1));
}

const commentBytes = 20;

function byteParts(event: string): readonly Buffer[] {
  const bytes = Buffer.from(event);
  return Array.from(bytes, (_, index) => bytes.subarray(index, index + 1));
}

/** Fields with numbers, escapes and white space that would change if somebody parsed and serialized them again. */
const oddMembers =
  '{ "x_odd" : {"one":1.0 , "power" : 1e5,"big":12345678901234567890,"small":-0.10,"escaped":"\\u0041\\/\\ud83d\\ude00"} ,\t';

function withOddMembers(json: string): string {
  return `${oddMembers}${json.slice(1)}\n \n`;
}
