/** Relays a vendor's event stream as complete events without changing their bytes, and returns how the stream ended. */
import type { Span } from '../core/json/spans.ts';
import { createSseParser, type SseEvent, SseEventTooLargeError } from '../core/sse.ts';
import type { StreamReader } from '../dialects/contract/route-codec.ts';
import { toVendorError } from './http-client.ts';
import type { ResponseBody } from './response-body.ts';
import { stripSecrets, stripSecretsFromBytes } from './strip-secrets.ts';

/**
 * Tells whether the stream was complete, or was broken off by the vendor. `errorForwarded` means that we have relayed
 * the vendor's error event.
 */
export type StreamEnd =
  | { readonly kind: 'whole' }
  | { readonly kind: 'broken'; readonly message: string; readonly errorForwarded: boolean };

/**
 * The bytes of complete events. `isLast` marks the chunk that completes the response, because we record the call before
 * we send this chunk.
 */
export interface StreamChunk {
  readonly kind: 'chunk';
  readonly bytes: Buffer;
  readonly isLast: boolean;
  /** Set if there's no content so far, but only the opening of the response and possibly an error. */
  readonly isOpening?: true;
  /** The events in `bytes` that only report usage, in order. Absent if there are none. */
  readonly usage?: readonly Span[];
}

/**
 * Reads the chunks of a stream. All stages of a call read what has arrived without waiting, and only the last reader
 * waits, because a promise per stage and chunk would cost more than the chunk itself (measured).
 */
export interface ChunkReader {
  /**
   * Returns the next chunk, or how the stream ended after the last chunk. Returns null if nothing has arrived. Throws
   * VendorError `aborted`.
   */
  read(): StreamChunk | StreamEnd | null;
  /** Resolves when `read` may return something other than null. Only one reader may wait at a time. */
  ready(): Promise<void>;
  /** Call this after the last `read`. It ends the vendor's request unless the response is complete. */
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
   * These describe the bytes that we're currently reading. They are the events that only report usage, the error, and
   * whether the last event belongs to the dialect.
   */
  let usage = noSpans;
  let error: SseEvent | null = null;
  let isReadable = true;

  const breakOff = (message: string, errorForwarded = false): void => {
    end = { kind: 'broken', message, errorForwarded };
    body.destroy();
  };

  const visitor = {
    skip: (latin1: string, at: number): number => (end || !reader.skip ? at : reader.skip(latin1, at)),
    read(event: SseEvent): void {
      if (end) return;
      const kind = reader.read(event);
      isReadable = kind !== 'unreadable';
      if (kind === 'opening') hasStarted = true;
      else if (kind === 'delta') hasStarted = hasContent = true;
      else if (kind === 'usage') {
        hasStarted = hasContent = true;
        usage = [...usage, { start: event.start, end: event.end }];
      } else if (kind === 'end' && hasStarted) end = { kind: 'whole' };
      else if (kind === 'error') {
        error = event;
        breakOff(stripSecrets(reader.problem()?.message ?? 'the vendor reported an error', secrets), hasStarted);
      } else if (!isReadable && !hasStarted) breakOff('the stream does not use this dialect');
    },
  };

  /** Cuts off everything after an error, because e.g. `[DONE]` would make the response look complete. */
  const cutAtError = (bytes: Buffer): Buffer => {
    if (error === null) return bytes;
    // We only strip secrets from the error itself, because `usage` has positions of events before it.
    const reported = stripSecretsFromBytes(bytes.subarray(error.start, error.end), secrets);
    return Buffer.concat([bytes.subarray(0, error.start), reported]);
  };

  /** Creates a chunk from the buffered events followed by `bytes`. */
  const toChunk = (bytes: Buffer): StreamChunk => {
    const offset = bufferedBytes;
    const all = offset === 0 ? bytes : Buffer.concat([...buffered, bytes]);
    buffered = [];
    bufferedBytes = 0;
    const isLast = end?.kind === 'whole';
    if (!hasContent && !isLast) return { kind: 'chunk', bytes: all, isLast, isOpening: true };
    if (usage.length === 0) return { kind: 'chunk', bytes: all, isLast };
    const spans = usage.map((span) => ({ start: span.start + offset, end: span.end + offset }));
    usage = noSpans;
    return { kind: 'chunk', bytes: all, isLast, usage: spans };
  };

  const relay = (chunk: Buffer): StreamChunk | null => {
    const bytes = cutAtError(parser.scan(chunk, visitor));
    if (bytes.length === 0) return null;
    if (hasStarted) return toChunk(bytes);
    buffered.push(bytes);
    bufferedBytes += bytes.length;
    if (end === null && bufferedBytes > maxBufferedBytes) breakOff('only keep-alive events arrived');
    return null;
  };

  const finish = (): StreamChunk | null => {
    isReadable = true;
    const bytes = cutAtError(parser.scanEnd(visitor));
    end ??= reader.finished() ? { kind: 'whole' } : { kind: 'broken', message: 'the vendor ended the stream early', errorForwarded: false };
    // We only relay an incomplete event if it completes the response, because a client couldn't parse an error event
    // after it.
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
          breakOff(failure.message);
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
