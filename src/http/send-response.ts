/**
 * Writes a response to the caller, either at once or as a stream. Streams have backpressure, so that a slow reader
 * slows down the vendor and doesn't fill our memory.
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

/**
 * Returns the headers that contain the call id, as a flat list. One of them is the request id that the dialect's SDKs
 * show.
 */
export function callIdHeaders(id: string, style: ErrorStyle): string[] {
  return ['x-gateway-call-id', id, style === 'messages' ? 'request-id' : 'x-request-id', id];
}

/**
 * Adds the call id headers to a response. Use this for responses that aren't sent with `sendCallResponse`, which adds
 * them itself.
 */
export function setCallId(response: ServerResponse, id: string, style: ErrorStyle): void {
  const headers = callIdHeaders(id, style);
  for (let at = 0; at < headers.length; at += 2) response.setHeader(headers[at] ?? '', headers[at + 1] ?? '');
}

/** With more ids, the headers could exceed the 4 KiB that some proxies reserve for them. */
const maxRecalledIds = 50;

/**
 * Sends the response with additional headers. Returns a promise only for streams. It resolves when the response has
 * been passed to the connection, or the caller has disconnected.
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

/** Returns headers with the names of request fields that we dropped or adjusted for the vendor. */
function changeHeaders({ dropped, adjusted }: RequestChanges): string[] {
  return [
    ...(dropped.size > 0 ? ['x-gateway-dropped', listNames(dropped)] : []),
    ...(adjusted.size > 0 ? ['x-gateway-adjusted', listNames(adjusted)] : []),
  ];
}

/**
 * Limits for the header that lists dropped fields. A caller can send any number of unknown fields, and their names can
 * have any length.
 */
const [maxNames, maxNameLength] = [40, 64];

function listNames(names: ReadonlySet<string>): string {
  const listed = [...names].slice(0, maxNames).map((name) => encodeURIComponent(name.toWellFormed()).slice(0, maxNameLength));
  return names.size > maxNames ? `${listed.join(', ')}, and ${names.size - maxNames} more` : listed.join(', ');
}

export function sendImages(response: ServerResponse, { model, json }: ImageResult): void {
  setModelHeader(response, model);
  sendBytes(response, 200, 'application/json', json);
}

/**
 * Streams audio without a content-length. The end of the response marks the end of the audio, and the call has been
 * settled by then.
 */
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

/** Sends chunks as fast as the caller reads them. Disconnects a caller that reads nothing for a minute. */
export async function sendChunks(response: ServerResponse, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const bytes of chunks) if (!(await writeChunk(response, bytes))) return;
  response.end();
}

/**
 * Writes a chunk. Returns false if the connection is closed. If the reader is slow, returns a promise that resolves
 * once it has caught up.
 */
function writeChunk(response: ServerResponse, bytes: Uint8Array): boolean | Promise<boolean> {
  if (response.destroyed) return false;
  if (response.write(bytes)) return true;
  return waitUntilDrained(response).then((isAlive) => {
    if (!isAlive) response.destroy();
    return !response.destroyed;
  });
}

/**
 * Waits for a slow caller. Resolves to true once the connection accepts more data or is closed, and to false if that
 * takes too long.
 */
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

/** Replaces characters that a header value can't contain. */
function toHeaderValue(model: string): string {
  return model.replace(/[^\x20-\x7e]/g, '?');
}
