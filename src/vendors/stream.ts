/**
 * Relays a vendor's event stream event by event, without changing any bytes. At the end, it reports whether the
 * response was complete.
 */

import { VendorError } from '../core/errors.ts';
import type { Span } from '../core/json/spans.ts';
import { createSseParser, type SseEvent, SseEventTooLargeError } from '../core/sse.ts';
import type { StreamReader } from '../dialects/contract/route-codec.ts';
import type { ResponseBody } from './response-body.ts';
import { stripSecrets, stripSecretsFromBytes } from './strip-secrets.ts';
import { toVendorError } from './transport-errors.ts';

export interface BrokenStream {
  readonly kind: 'broken';
  readonly message: string;
  /** True if the caller has already received the vendor's error event. */
  readonly errorForwarded: boolean;
  /** True if the stream was closed because the service is stopping. The vendor isn't at fault then. */
  readonly isStopping?: true;
}

export type StreamEnd = { readonly kind: 'whole' } | BrokenStream;

export function toStreamError({ message, isStopping }: BrokenStream): VendorError {
  return new VendorError(isStopping ? 'stopped' : 'broken', message);
}

/**
 * A part of a stream that consists of complete events. `isLast` is true for the chunk that completes the response,
 * because we have to record the call before we send that chunk.
 */
export interface StreamChunk {
  readonly kind: 'chunk';
  readonly bytes: Buffer;
  /** The events in `bytes` after parsing, for translators. Empty if the chunk doesn't come straight from a vendor. */
  readonly events: readonly SseEvent[];
  readonly isLast: boolean;
  /** Set if the chunk has no content. It only contains the opening of the response, and maybe an error. */
  readonly isOpening?: true;
  /** The positions in `bytes` of events that contain nothing but usage, in order. Absent if there are none. */
  readonly usage?: readonly Span[];
}

/**
 * Reads the chunks of a stream. A call passes them through several stages, which only take what has already arrived.
 * Just the last reader waits. If every stage used a promise for every chunk, the promises would cost more than the
 * chunk itself (measured).
 */
export interface ChunkReader {
  /**
   * Returns the next chunk. After the last chunk, returns how the stream ended. Returns null if nothing has arrived
   * yet. Throws VendorError `aborted`.
   */
  read(): StreamChunk | StreamEnd | null;
  /** Resolves when `read` has something to return. Only one reader can wait at a time. */
  ready(): Promise<void>;
  /** Closes the stream. This aborts the vendor's request unless the response is complete. */
  close(): void;
}

/** Waits for the next chunk, or for the end of the stream. Throws the same errors as `read`. */
export async function nextChunk(chunks: ChunkReader): Promise<StreamChunk | StreamEnd> {
  for (;;) {
    const step = chunks.read();
    if (step !== null) return step;
    await chunks.ready();
  }
}

/** Removes events that contain nothing but usage. */
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
 * Limits the keep-alives that are buffered before the first chunk. A vendor that sends nothing else could otherwise
 * fill up the memory.
 */
const maxBufferedBytes = 1024 * 1024;
/**
 * How many events that don't belong to the dialect a stream may contain after its start. Trying to parse one takes far
 * longer than relaying it.
 */
const maxUnreadable = 100;
/** Stripping secrets takes a millisecond per KiB in the worst case, so we don't relay longer error events. */
const maxErrorLength = 65_536;

/**
 * Relays the events of a response. Before the response starts, we don't return any chunk and buffer keep-alives, so
 * that we can still try another model. If the stream fails at that stage, it's `broken` without a chunk. Throws
 * VendorError `aborted` if the caller has cancelled the request, and `stopped` if the service stops before the first
 * chunk. The vendor's error event may repeat a secret, so we strip the `secrets` from it.
 *
 * If the response is complete, we leave `body` open so that its connection can be reused. If it isn't, we destroy it.
 */
export function relayEvents(body: ResponseBody, reader: StreamReader, secrets: readonly string[] = []): ChunkReader {
  const parser = createSseParser();
  let hasStarted = false;
  let hasContent = false;
  let buffered: Buffer[] = [];
  let bufferedBytes = 0;
  let end: StreamEnd | null = null;
  /**
   * The state of the current read. `usage` has the positions of events that contain nothing but usage. `error` is the
   * error event, if there is one. `isReadable` is false if the last event doesn't belong to the dialect.
   */
  let events: SseEvent[] = [];
  let usage: Span[] = [];
  let error: SseEvent | null = null;
  let isReadable = true;
  let unreadable = 0;

  const breakOff = (message: string, how: Partial<BrokenStream> = {}): void => {
    end = { kind: 'broken', message, errorForwarded: false, ...how };
    body.destroy();
  };

  const readEvent = (event: SseEvent): void => {
    if (end) return;
    const kind = reader.read(event);
    isReadable = kind !== 'unreadable';
    if (!isReadable) unreadable += 1;
    if (kind === 'error' && event.data.length > maxErrorLength) {
      error = { ...event, end: event.start };
      breakOff('the vendor reported an error that is too long to relay');
      return;
    }
    events.push(kind === 'error' ? { ...event, data: stripSecrets(event.data, secrets) } : event);
    if (kind === 'opening') hasStarted = true;
    else if (kind === 'delta') hasStarted = hasContent = true;
    else if (kind === 'usage') {
      hasStarted = hasContent = true;
      usage.push({ start: event.start, end: event.end });
    } else if (kind === 'end' && hasStarted) end = { kind: 'whole' };
    else if (kind === 'error') {
      error = event;
      breakOff(stripSecrets(reader.problem()?.message ?? 'the vendor reported an error', secrets), { errorForwarded: hasStarted });
    } else if (unreadable > (hasStarted ? maxUnreadable : 0)) breakOff("the stream is not in the format of the provider's dialect");
  };

  /**
   * Drops everything after an error event. Otherwise a `[DONE]` at the end, for example, would make the response look
   * complete.
   */
  const cutAtError = (bytes: Buffer): Buffer => {
    if (error === null) return bytes;
    // Only strip secrets from the error event. This can change its length, and `usage` contains positions in the bytes
    // before it, so those bytes have to stay the same.
    const reported = stripSecretsFromBytes(bytes.subarray(error.start, error.end), secrets);
    return Buffer.concat([bytes.subarray(0, error.start), reported]);
  };

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
    usage = [];
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
    // The last event may be incomplete. We only relay it if it completes the response or is the vendor's error.
    // Otherwise we'd send half an event, and clients couldn't parse the error event that we send after it.
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
