/** Relays a vendor's event stream as complete events without changing their bytes, and returns how the stream ended. */

import { VendorError } from '../core/errors.ts';
import type { Span } from '../core/json/spans.ts';
import { createSseParser, type SseEvent, SseEventTooLargeError } from '../core/sse.ts';
import type { StreamReader } from '../dialects/contract/route-codec.ts';
import { toVendorError } from './http-client.ts';
import type { ResponseBody } from './response-body.ts';
import { stripSecrets, stripSecretsFromBytes } from './strip-secrets.ts';

export interface BrokenStream {
  readonly kind: 'broken';
  readonly message: string;
  /** True if the caller already has the vendor's error event. */
  readonly errorForwarded: boolean;
  /** True if we closed the stream because the service is stopping, so don't blame the vendor. */
  readonly isStopping?: true;
}

/** Says whether the stream was complete or broke off. */
export type StreamEnd = { readonly kind: 'whole' } | BrokenStream;

export function toStreamError({ message, isStopping }: BrokenStream): VendorError {
  return new VendorError(isStopping ? 'stopped' : 'broken', message);
}

/**
 * Bytes of a stream that form complete events. The chunk that completes the response has `isLast` set, because the call
 * has to be recorded before that chunk is sent.
 */
export interface StreamChunk {
  readonly kind: 'chunk';
  readonly bytes: Buffer;
  /** The events in `bytes`, for translators. Empty if the chunk doesn't come directly from a vendor. */
  readonly events: readonly SseEvent[];
  readonly isLast: boolean;
  /** Set if the chunk contains only the opening of the response, and perhaps an error, but no content. */
  readonly isOpening?: true;
  /**
   * The positions in `bytes` of the events that only report usage, from first to last. Absent if there are no such
   * events.
   */
  readonly usage?: readonly Span[];
}

/**
 * Reads the chunks of a stream. The stages of a call all read what has arrived without waiting. Only the last reader
 * waits, because a promise per stage and chunk would cost more than the chunk itself (measured).
 */
export interface ChunkReader {
  /**
   * Returns the next chunk. After the last chunk, returns how the stream ended. Returns null if nothing has arrived
   * yet. Throws VendorError `aborted`.
   */
  read(): StreamChunk | StreamEnd | null;
  /** Resolves when `read` can return something other than null. Only one reader may wait at a time. */
  ready(): Promise<void>;
  /** Call this after the last `read`. Aborts the vendor's request unless the response is complete. */
  close(): void;
}

/** Waits for the next chunk or the end of the stream. Throws the same errors as `read`. */
export async function nextChunk(chunks: ChunkReader): Promise<StreamChunk | StreamEnd> {
  for (;;) {
    const step = chunks.read();
    if (step !== null) return step;
    await chunks.ready();
  }
}

/** Returns the bytes of a chunk without the events that only report usage. */
export function omitUsage({ bytes, usage = [] }: Pick<StreamChunk, 'bytes' | 'usage'>): Buffer {
  const kept: Buffer[] = [];
  let at = 0;
  for (const { start, end } of usage) {
    kept.push(bytes.subarray(at, start));
    at = end;
  }
  return Buffer.concat([...kept, bytes.subarray(at)]);
}

/**
 * Limits the keep-alives that we buffer before the first chunk, so that a vendor that sends nothing else can't fill our
 * memory.
 */
const maxBufferedBytes = 1024 * 1024;
const noSpans: readonly Span[] = [];

/**
 * Relays the events of a response. Until the response starts, we buffer keep-alives and return no chunk, so that
 * another model can be tried. If the stream fails before this point, it's `broken` without a chunk. Throws VendorError
 * `aborted` if the caller cancelled the request, and `stopped` if the service stops before the first chunk. We strip
 * the `secrets` from the vendor's error event, because it may repeat them.
 *
 * After a complete response `body` stays open so that its connection can be reused. Otherwise we destroy it.
 */
export function relayEvents(body: ResponseBody, reader: StreamReader, secrets: readonly string[] = []): ChunkReader {
  const parser = createSseParser();
  let hasStarted = false;
  let hasContent = false;
  let buffered: Buffer[] = [];
  let bufferedBytes = 0;
  let end: StreamEnd | null = null;
  /**
   * These describe the bytes that we're reading: their events, the positions of events that only report usage, the
   * error event if there is one, and whether the last event belongs to the dialect.
   */
  let events: SseEvent[] = [];
  let usage = noSpans;
  let error: SseEvent | null = null;
  let isReadable = true;

  const breakOff = (message: string, how: Partial<BrokenStream> = {}): void => {
    end = { kind: 'broken', message, errorForwarded: false, ...how };
    body.destroy();
  };

  const readEvent = (event: SseEvent): void => {
    if (end) return;
    const kind = reader.read(event);
    events.push(kind === 'error' ? { ...event, data: stripSecrets(event.data, secrets) } : event);
    isReadable = kind !== 'unreadable';
    if (kind === 'opening') hasStarted = true;
    else if (kind === 'delta') hasStarted = hasContent = true;
    else if (kind === 'usage') {
      hasStarted = hasContent = true;
      usage = [...usage, { start: event.start, end: event.end }];
    } else if (kind === 'end' && hasStarted) end = { kind: 'whole' };
    else if (kind === 'error') {
      error = event;
      breakOff(stripSecrets(reader.problem()?.message ?? 'the vendor reported an error', secrets), { errorForwarded: hasStarted });
    } else if (!isReadable && !hasStarted) breakOff('the stream does not use this dialect');
  };

  /** Drops everything after an error. With an event like `[DONE]` at the end, the response would look complete. */
  const cutAtError = (bytes: Buffer): Buffer => {
    if (error === null) return bytes;
    // Only strip secrets from the error event. Everything before it has to keep its length, because `usage` contains
    // positions in it.
    const reported = stripSecretsFromBytes(bytes.subarray(error.start, error.end), secrets);
    return Buffer.concat([bytes.subarray(0, error.start), reported]);
  };

  /** Creates a chunk that consists of the buffered events and `bytes`. */
  const toChunk = (bytes: Buffer): StreamChunk => {
    const offset = bufferedBytes;
    const all = offset === 0 ? bytes : Buffer.concat([...buffered, bytes]);
    buffered = [];
    bufferedBytes = 0;
    const isLast = end?.kind === 'whole';
    const chunk: StreamChunk = { kind: 'chunk', bytes: all, events, isLast };
    events = [];
    if (!hasContent && !isLast) return { ...chunk, isOpening: true };
    if (usage.length === 0) return chunk;
    const spans = usage.map((span) => ({ start: span.start + offset, end: span.end + offset }));
    usage = noSpans;
    return { ...chunk, usage: spans };
  };

  const relay = (chunk: Buffer): StreamChunk | null => {
    const bytes = cutAtError(parser.scan(chunk, readEvent));
    if (bytes.length === 0) return null;
    if (hasStarted) return toChunk(bytes);
    buffered.push(bytes);
    bufferedBytes += bytes.length;
    if (end === null && bufferedBytes > maxBufferedBytes) breakOff('only keep-alive events arrived');
    return null;
  };

  const finish = (): StreamChunk | null => {
    isReadable = true;
    const bytes = cutAtError(parser.scanEnd(readEvent));
    end ??= reader.finished() ? { kind: 'whole' } : { kind: 'broken', message: 'the vendor ended the stream early', errorForwarded: false };
    // If the last event is incomplete, we only relay it if it completes the response. In all other cases an error event
    // follows, and clients couldn't parse that after a partial event.
    const isSent = hasStarted && isReadable && bytes.length > 0 && (end.kind === 'whole' || end.errorForwarded);
    return isSent ? toChunk(bytes) : null;
  };

  const readArrived = (): StreamChunk | null => {
    for (let arrived = body.take(); arrived !== null; arrived = body.take()) {
      const chunk = relay(arrived);
      if (chunk !== null || end !== null) return chunk;
    }
    return body.isEnded() ? finish() : null;
  };

  return {
    read() {
      if (end !== null) return end;
      try {
        return readArrived() ?? end;
      } catch (cause) {
        if (cause instanceof SseEventTooLargeError) breakOff(cause.message);
        else {
          const failure = toVendorError(cause, 'body');
          if (failure.kind === 'aborted' || (failure.kind === 'stopped' && !hasStarted)) throw failure;
          breakOff(failure.message, failure.kind === 'stopped' ? { isStopping: true } : {});
        }
        return end;
      }
    },
    ready: () => body.arrival(),
    close() {
      if (end?.kind !== 'whole') body.destroy();
    },
  };
}
