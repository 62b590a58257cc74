/** Writes an answer to the caller: bytes, or a stream with back pressure (a slow reader makes the vendor wait, not our memory grow). */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CallResponse } from '../pipeline/call/handle-call.ts';
import type { MediaStream } from '../pipeline/media/handle-media-call.ts';
import type { ImageResult } from '../pipeline/media/images.ts';
import type { VideoStart } from '../pipeline/video/start-video.ts';
import type { FileResponse } from '../pipeline/video/video-queries.ts';
import { sendJson } from './error-handler.ts';

/** Resolves when all is handed to the connection, or the caller has left. */
export async function sendCallResponse(response: ServerResponse, callResponse: CallResponse): Promise<void> {
  response.setHeader('x-gateway-model', toHeaderValue(callResponse.model));
  if (callResponse.cache !== null) response.setHeader('x-gateway-cache', callResponse.cache);
  if (callResponse.kind === 'plain') {
    response.writeHead(callResponse.status, {
      'content-type': callResponse.contentType,
      'content-length': callResponse.bytes.length,
      'cache-control': 'no-store',
    });
    response.end(callResponse.bytes);
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache', 'x-accel-buffering': 'no' });
  await sendChunks(response, callResponse.chunks);
}

/** An image result (shapes 9). */
export function sendImages(response: ServerResponse, { model, json }: ImageResult): void {
  response.setHeader('x-gateway-model', toHeaderValue(model));
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': json.length, 'cache-control': 'no-store' });
  response.end(json);
}

/** Audio as it comes. Without a length: its end is told by the connection, behind the settling of the call. */
export async function sendMedia(response: ServerResponse, { model, contentType, chunks }: MediaStream): Promise<void> {
  response.setHeader('x-gateway-model', toHeaderValue(model));
  response.writeHead(200, { 'content-type': contentType, 'cache-control': 'no-store', 'x-accel-buffering': 'no' });
  await sendChunks(response, chunks);
}

/** A video that was started (shapes 11). */
export function sendVideoStart(response: ServerResponse, { operation, model }: VideoStart): void {
  response.setHeader('x-gateway-model', toHeaderValue(model));
  sendJson(response, 200, { operation, done: false, model });
}

/** A file of any size as it comes. */
export async function sendFile(response: ServerResponse, { contentType, lengthBytes, chunks }: FileResponse): Promise<void> {
  const length = lengthBytes === null ? {} : { 'content-length': lengthBytes };
  response.writeHead(200, { 'content-type': contentType, ...length, 'cache-control': 'no-store', 'x-accel-buffering': 'no' });
  await sendChunks(response, chunks);
}

async function sendChunks(response: ServerResponse, chunks: AsyncIterable<Buffer>): Promise<void> {
  for await (const bytes of chunks) {
    if (response.destroyed) return;
    if (!response.write(bytes) && !(await waitUntilDrained(response))) response.destroy();
  }
  response.end();
}

/** A caller that takes nothing for so long has left; it would hold its vendor's connection for ever. */
const readerTimeoutMs = 60_000;

/** Waits until the connection takes more, or is gone; false when neither happens in time. */
async function waitUntilDrained(response: ServerResponse): Promise<boolean> {
  if (response.destroyed) return true;
  const waiting = new AbortController();
  const { signal } = waiting;
  const tooLate = sleep(readerTimeoutMs, false, { signal }).catch(() => true);
  const moved = Promise.race([once(response, 'drain', { signal }), once(response, 'close', { signal })]).then(() => true);
  return await Promise.race([moved, tooLate]).finally(() => waiting.abort());
}

/** Model ids may hold any character; header values may not. */
function toHeaderValue(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?');
}
