/** Relays a vendor's event stream as complete events with unchanged bytes, and returns how it ended. */
import type { Span } from '../core/json/spans.ts';
import type { SseBatch } from '../core/sse.ts';
import { createSseParser, SseEventTooLargeError } from '../core/sse.ts';
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
  readonly bytes: Buffer;
  readonly isLast: boolean;
  /** The response has no content so far: only its opening, or that and an error. Absent otherwise. */
  readonly isOpening?: true;
  /** Events of `bytes` that only report usage, in order; absent when there are none. */
  readonly usage?: readonly Span[];
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

/** Result of reading a batch of complete events. */
interface Step {
  readonly bytes: Buffer;
  /** Events of `bytes` that only report usage. */
  readonly usage: readonly Span[];
  /** Null when the stream continues. */
  readonly end: StreamEnd | null;
  /** The last event of the batch belongs to the dialect. */
  readonly isReadable: boolean;
}

/** Limit of buffered keep-alives before the first chunk: a vendor that sends nothing else must not fill the memory. */
const maxBufferedBytes = 1024 * 1024;
const noSpans: readonly Span[] = [];

/**
 * Yields nothing before the first chunk of the response: until then keep-alives are buffered and another model can be tried. A stream that
 * fails earlier returns `broken` without having yielded. Throws VendorError `aborted` when the caller cancelled it, and `stopped` when the
 * service stops before the first chunk. The vendor's error event is relayed without the `secrets` that it may repeat.
 *
 * After a complete response `body` stays open, so that its connection is reused; in every other case it is destroyed.
 */
export async function* relayEvents(
  body: ResponseBody,
  reader: StreamReader,
  secrets: readonly string[] = [],
): AsyncGenerator<StreamChunk, StreamEnd> {
  const parser = createSseParser();
  let hasStarted = false;
  let hasContent = false;
  let isWhole = false;
  let buffered: Buffer[] = [];
  let bufferedBytes = 0;

  const step = ({ bytes, events }: SseBatch): Step => {
    let isReadable = true;
    let usage = noSpans;
    for (const [index, event] of events.entries()) {
      const kind = reader.read(event);
      isReadable = kind !== 'unreadable';
      if (kind === 'opening') hasStarted = true;
      else if (kind === 'delta') hasStarted = hasContent = true;
      else if (kind === 'usage') {
        hasStarted = hasContent = true;
        usage = [...usage, { start: event.start, end: events[index + 1]?.start ?? bytes.length }];
      } else if (kind === 'end' && hasStarted) return { bytes, usage, end: { kind: 'whole' }, isReadable };
      else if (kind === 'error') {
        // Anything after the error, such as `[DONE]`, would make the response appear complete, so it is cut off.
        // Secrets are stripped from the error alone: the positions of `usage` are those of the events before it.
        const reported = stripSecretsFromBytes(bytes.subarray(event.start, events[index + 1]?.start ?? bytes.length), secrets);
        const cut = Buffer.concat([bytes.subarray(0, event.start), reported]);
        const message = stripSecrets(reader.problem()?.message ?? 'the vendor reported an error', secrets);
        return { bytes: cut, usage, end: { kind: 'broken', message, errorForwarded: hasStarted }, isReadable };
      } else if (!isReadable && !hasStarted) {
        return {
          bytes,
          usage,
          end: { kind: 'broken', message: 'the stream does not use this dialect', errorForwarded: false },
          isReadable,
        };
      }
    }
    return { bytes, usage, end: null, isReadable };
  };

  /** The chunk of complete events: those that were buffered, then those of a step. */
  const toChunk = ({ bytes, usage }: Step, isLast: boolean): StreamChunk => {
    const offset = bufferedBytes;
    const all = offset === 0 ? bytes : Buffer.concat([...buffered, bytes]);
    buffered = [];
    bufferedBytes = 0;
    if (!hasContent && !isLast) return { bytes: all, isLast, isOpening: true };
    if (usage.length === 0) return { bytes: all, isLast };
    return { bytes: all, isLast, usage: usage.map(({ start, end }) => ({ start: start + offset, end: end + offset })) };
  };

  try {
    for (let chunk = await body.read(); chunk !== null; chunk = await body.read()) {
      const read = step(parser.push(chunk));
      const { bytes, end } = read;
      if (end && !hasStarted) return end;
      if (!hasStarted) {
        if (bytes.length > 0) buffered.push(bytes);
        bufferedBytes += bytes.length;
        if (bufferedBytes > maxBufferedBytes) return { kind: 'broken', message: 'only keep-alive events arrived', errorForwarded: false };
        continue;
      }
      isWhole = end?.kind === 'whole';
      if (bytes.length > 0) yield toChunk(read, isWhole);
      if (end) return end;
    }
    const read = step(parser.end());
    const { bytes, end, isReadable } = read;
    const ended: StreamEnd =
      end ??
      (reader.finished() ? { kind: 'whole' } : { kind: 'broken', message: 'the vendor ended the stream early', errorForwarded: false });
    // An incomplete event is relayed only if it completes the response: a client could not parse an error event after it.
    if (hasStarted && isReadable && bytes.length > 0 && (ended.kind === 'whole' || ended.errorForwarded))
      yield toChunk(read, ended.kind === 'whole');
    return ended;
  } catch (cause) {
    if (cause instanceof SseEventTooLargeError) return { kind: 'broken', message: cause.message, errorForwarded: false };
    const error = toVendorError(cause, 'body');
    if (error.kind === 'aborted' || (error.kind === 'stopped' && !hasStarted)) throw error;
    return { kind: 'broken', message: error.message, errorForwarded: false };
  } finally {
    if (!isWhole) body.destroy();
  }
}
