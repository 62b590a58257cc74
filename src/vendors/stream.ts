/** Relays a vendor's event stream as complete events with unchanged bytes, and returns how it ended. */
import type { Span } from '../core/json/spans.ts';
import { createSseParser, type SseEvent, SseEventTooLargeError } from '../core/sse.ts';
import type { StreamReader } from '../dialects/contract/route-codec.ts';
import { toVendorError } from './http-client.ts';
import type { ResponseBody } from './response-body.ts';
import { stripSecrets, stripSecretsFromBytes } from './strip-secrets.ts';

/** How a stream ended: complete, or broken by the vendor. `errorForwarded`: the vendor's error event has been relayed. */
export type StreamEnd =
  | { readonly kind: 'whole' }
  | { readonly kind: 'broken'; readonly message: string; readonly errorForwarded: boolean };

/** Bytes of complete events. `isLast` marks the chunk that completes the response, so that the call is recorded before it is sent. */
export interface StreamChunk {
  readonly kind: 'chunk';
  readonly bytes: Buffer;
  readonly isLast: boolean;
  /** The response has no content so far: only its opening, or that and an error. Absent otherwise. */
  readonly isOpening?: true;
  /** Events of `bytes` that only report usage, in order; absent when there are none. */
  readonly usage?: readonly Span[];
}

/**
 * The chunks of a stream. What has arrived is read without waiting, through all stages of a call, and only its last reader waits: a promise
 * per stage and chunk would cost more than the chunk (measured).
 */
export interface ChunkReader {
  /** The next chunk, and how the stream ended after the last one. Null when nothing has arrived. Throws VendorError `aborted`. */
  read(): StreamChunk | StreamEnd | null;
  /** Resolves when `read` may return something else than null. For one reader at a time. */
  ready(): Promise<void>;
  /** Call after the last `read`. Ends the vendor's request unless the response is complete. */
  close(): void;
}

/** Waits for the next chunk or the end. Throws like `read`. */
export async function nextChunk(chunks: ChunkReader): Promise<StreamChunk | StreamEnd> {
  for (;;) {
    const step = chunks.read();
    if (step !== null) return step;
    await chunks.ready();
  }
}

/** The bytes of a chunk without its events that only report usage. */
export function omitUsage({ bytes, usage = [] }: Pick<StreamChunk, 'bytes' | 'usage'>): Buffer {
  const kept: Buffer[] = [];
  let at = 0;
  for (const { start, end } of usage) {
    kept.push(bytes.subarray(at, start));
    at = end;
  }
  return Buffer.concat([...kept, bytes.subarray(at)]);
}

/** Limit of buffered keep-alives before the first chunk: a vendor that sends nothing else must not fill the memory. */
const maxBufferedBytes = 1024 * 1024;
const noSpans: readonly Span[] = [];

/**
 * Returns no chunk before the first one of the response: until then keep-alives are buffered and another model can be tried. A stream that
 * fails earlier is `broken` without a chunk. Throws VendorError `aborted` when the caller cancelled it, and `stopped` when the service stops
 * before the first chunk. The vendor's error event is relayed without the `secrets` that it may repeat.
 *
 * After a complete response `body` stays open, so that its connection is reused; in every other case it is destroyed.
 */
export function relayEvents(body: ResponseBody, reader: StreamReader, secrets: readonly string[] = []): ChunkReader {
  const parser = createSseParser();
  let hasStarted = false;
  let hasContent = false;
  let buffered: Buffer[] = [];
  let bufferedBytes = 0;
  let end: StreamEnd | null = null;
  /** Of the bytes that are being read: events that only report usage, the error, and whether the last event belongs to the dialect. */
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

  /** The bytes to send of complete events: anything after an error, such as `[DONE]`, would make the response appear complete. */
  const cutAtError = (bytes: Buffer): Buffer => {
    if (error === null) return bytes;
    // Secrets are stripped from the error alone: the positions of `usage` are those of the events before it.
    const reported = stripSecretsFromBytes(bytes.subarray(error.start, error.end), secrets);
    return Buffer.concat([bytes.subarray(0, error.start), reported]);
  };

  /** The chunk of complete events: those that were buffered, then `bytes`. */
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
    // An incomplete event is relayed only if it completes the response: a client could not parse an error event after it.
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
