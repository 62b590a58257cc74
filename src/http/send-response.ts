/**
 * Writes a plain or streamed response to the caller. If the caller of a stream reads slowly, backpressure slows down
 * reading from the vendor, so that data doesn't pile up in our memory.
 */
import type { ServerResponse } from 'node:http';
import type { RequestChanges } from '../dialects/translate/request-changes.ts';
import type { CallResponse } from '../pipeline/call/call-response.ts';
import type { DeliverStream } from '../pipeline/call/deliver-stream.ts';
import type { MediaStream } from '../pipeline/media/handle-media-call.ts';
import type { ImageResult } from '../pipeline/media/images.ts';
import type { VideoStart } from '../pipeline/video/start-video.ts';
import type { FileResponse } from '../pipeline/video/video-queries.ts';
import { breakOff, readerTimeoutMs } from './break-off.ts';
import { type ErrorStyle, sendBytes, sendJson } from './error-handler.ts';

/** Returns a flat list of headers with the call's id. The official SDKs show this id as their request id. */
export function callIdHeaders(id: string, style: ErrorStyle): string[] {
  return ['x-gateway-call-id', id, style === 'messages' ? 'request-id' : 'x-request-id', id];
}

/** Adds the call id headers to a response. `sendCallResponse` adds them itself, so this is for all other responses. */
export function setCallId(response: ServerResponse, id: string, style: ErrorStyle): void {
  const headers = callIdHeaders(id, style);
  for (let at = 0; at < headers.length; at += 2) response.setHeader(headers[at] ?? '', headers[at + 1] ?? '');
}

/** Limit the ids, because some proxies only accept 4 KiB of headers. */
const maxRecalledIds = 50;

/**
 * Sends the response with additional headers. For a stream, this returns a promise that resolves when we've passed
 * everything to the connection or the caller has disconnected.
 */
export function sendCallResponse(response: ServerResponse, callResponse: CallResponse, headers: string[]): Promise<void> | undefined {
  const { model, cache, recalled, changes } = callResponse;
  headers.push('x-gateway-model', toHeaderValue(model));
  if (cache !== null) headers.push('x-gateway-cache', cache);
  if (recalled.length > 0) headers.push('x-gateway-memory-recalled', recalled.slice(0, maxRecalledIds).join());
  if (changes) headers.push(...changeHeaders(changes));
  if (callResponse.kind === 'plain') {
    sendBytes(response, callResponse.status, callResponse.contentType, callResponse.bytes, headers);
    return undefined;
  }
  headers.push('content-type', 'text/event-stream', 'cache-control', 'no-cache', 'x-accel-buffering', 'no');
  response.writeHead(200, headers);
  return sendStream(response, callResponse.deliver);
}

function changeHeaders({ dropped, adjusted }: RequestChanges): string[] {
  return [
    ...(dropped.size > 0 ? ['x-gateway-dropped', listNames(dropped)] : []),
    ...(adjusted.size > 0 ? ['x-gateway-adjusted', listNames(adjusted)] : []),
  ];
}

/** Limit the names in the header, because a caller can send any number of unknown fields with names of any length. */
const [maxNames, maxNameLength] = [40, 64];

function listNames(names: ReadonlySet<string>): string {
  const listed = [...names].slice(0, maxNames).map((name) => encodeURIComponent(name.toWellFormed()).slice(0, maxNameLength));
  return names.size > maxNames ? `${listed.join(', ')}, and ${names.size - maxNames} more` : listed.join(', ');
}

export function sendImages(response: ServerResponse, { model, json }: ImageResult): void {
  setModelHeader(response, model);
  sendBytes(response, 200, 'application/json', json);
}

/** Streams audio of unknown length. By the time the response ends, the call has been settled. */
export async function sendMedia(response: ServerResponse, { model, contentType, chunks }: MediaStream): Promise<void> {
  try {
    setModelHeader(response, model);
    response.writeHead(200, { 'content-type': contentType, 'cache-control': 'no-store', 'x-accel-buffering': 'no' });
    await sendChunks(response, chunks);
  } finally {
    await chunks.return();
  }
}

export function sendVideoStart(response: ServerResponse, { operation, model }: VideoStart): void {
  setModelHeader(response, model);
  sendJson(response, 200, { operation, done: false, model });
}

export async function sendFile(response: ServerResponse, { contentType, lengthBytes, chunks }: FileResponse): Promise<void> {
  const length = lengthBytes === null ? {} : { 'content-length': lengthBytes };
  response.writeHead(200, { 'content-type': contentType, ...length, 'cache-control': 'no-store', 'x-accel-buffering': 'no' });
  await sendChunks(response, chunks);
}

async function sendStream(response: ServerResponse, deliver: DeliverStream): Promise<void> {
  const end = await deliver((bytes) => writeChunk(response, bytes));
  if (response.destroyed) return;
  if (end === 'broken') breakOff(response);
  else response.end();
}

/** Sends chunks at the pace of the caller. If the caller doesn't read anything for a minute, we disconnect it. */
export async function sendChunks(response: ServerResponse, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const bytes of chunks) if (!(await writeChunk(response, bytes))) return;
  response.end();
}

/**
 * Returns false if the connection is closed. If the caller reads slowly, returns a promise that resolves once it has
 * caught up.
 */
function writeChunk(response: ServerResponse, bytes: Uint8Array): boolean | Promise<boolean> {
  if (response.destroyed) return false;
  if (response.write(bytes)) return true;
  return waitUntilDrained(response).then((isAlive) => {
    if (!isAlive) response.destroy();
    return !response.destroyed;
  });
}

/** Resolves to true once the connection accepts more data or is closed, or to false after a timeout. */
function waitUntilDrained(response: ServerResponse): Promise<boolean> {
  if (response.destroyed) return Promise.resolve(true);
  return new Promise((resolve) => {
    const end = (isAlive: boolean): void => {
      clearTimeout(timer);
      response.off('drain', move).off('close', move);
      resolve(isAlive);
    };
    const move = (): void => end(true);
    const timer = setTimeout(end, readerTimeoutMs, false);
    response.on('drain', move).on('close', move);
  });
}

export function setModelHeader(response: ServerResponse, model: string): void {
  response.setHeader('x-gateway-model', toHeaderValue(model));
}

function toHeaderValue(model: string): string {
  return model.replace(/[^\x20-\x7e]/g, '?');
}
