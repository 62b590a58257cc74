/** Relays a vendor's event stream as complete events with unchanged bytes, and returns how it ended. */
import type { Readable } from 'node:stream';
import type { SseBatch } from '../core/sse.ts';
import { createSseParser, SseEventTooLargeError } from '../core/sse.ts';
import type { StreamReader } from '../dialects/contract/route-codec.ts';
import { destroyBody, toVendorError } from './http-client.ts';
import { stripSecrets, stripSecretsFromBytes } from './strip-secrets.ts';

/** How a stream ended: complete, or broken by the vendor. `errorForwarded`: the vendor's error event has been relayed. */
export type StreamEnd =
  | { readonly kind: 'whole' }
  | { readonly kind: 'broken'; readonly message: string; readonly errorForwarded: boolean };

/** Bytes of complete events. `isLast` marks the chunk that completes the response, so that the call is recorded before it is sent. */
export interface StreamChunk {
  readonly bytes: Buffer;
  readonly isLast: boolean;
}

/** Result of reading a batch of complete events. */
interface Step {
  readonly bytes: Buffer;
  /** Null when the stream continues. */
  readonly end: StreamEnd | null;
  /** The last event of the batch belongs to the dialect. */
  readonly isReadable: boolean;
}

/** Limit of buffered keep-alives before the first chunk: a vendor that sends nothing else must not fill the memory. */
const maxBufferedBytes = 1024 * 1024;

/**
 * Yields nothing before the first chunk of the response: until then keep-alives are buffered and another model can be tried. A stream that
 * fails earlier returns `broken` without having yielded. Throws VendorError `aborted` when the caller cancelled it, and `stopped` when the
 * service stops before the first chunk. The vendor's error event is relayed without the `secrets` that it may repeat.
 *
 * After a complete response `body` stays open, so that its connection is reused; in every other case it is destroyed.
 */
export async function* relayEvents(
  body: Readable,
  reader: StreamReader,
  secrets: readonly string[] = [],
): AsyncGenerator<StreamChunk, StreamEnd> {
  const parser = createSseParser();
  let hasStarted = false;
  let isWhole = false;
  let buffered: Buffer[] = [];
  let bufferedBytes = 0;

  const step = ({ bytes, events }: SseBatch): Step => {
    let isReadable = true;
    for (const [index, event] of events.entries()) {
      const kind = reader.read(event);
      isReadable = kind !== 'unreadable';
      if (kind === 'delta') hasStarted = true;
      else if (kind === 'end' && hasStarted) return { bytes, end: { kind: 'whole' }, isReadable };
      else if (kind === 'error') {
        // Anything after the error, such as `[DONE]`, would make the response appear complete, so it is cut off.
        const cut = stripSecretsFromBytes(bytes.subarray(0, events[index + 1]?.start ?? bytes.length), secrets);
        const message = stripSecrets(reader.problem() ?? 'the vendor reported an error', secrets);
        return { bytes: cut, end: { kind: 'broken', message, errorForwarded: hasStarted }, isReadable };
      } else if (!isReadable && !hasStarted) {
        return { bytes, end: { kind: 'broken', message: 'the stream does not use this dialect', errorForwarded: false }, isReadable };
      }
    }
    return { bytes, end: null, isReadable };
  };

  const takeBuffered = (bytes: Buffer): Buffer => {
    if (buffered.length === 0) return bytes;
    const all = Buffer.concat([...buffered, bytes]);
    buffered = [];
    return all;
  };

  try {
    for await (const chunk of body.iterator({ destroyOnReturn: false })) {
      const { bytes, end } = step(parser.push(chunk));
      if (end && !hasStarted) return end;
      if (!hasStarted) {
        if (bytes.length > 0) buffered.push(bytes);
        bufferedBytes += bytes.length;
        if (bufferedBytes > maxBufferedBytes) return { kind: 'broken', message: 'only keep-alive events arrived', errorForwarded: false };
        continue;
      }
      isWhole = end?.kind === 'whole';
      if (bytes.length > 0) yield { bytes: takeBuffered(bytes), isLast: isWhole };
      if (end) return end;
    }
    const { bytes, end, isReadable } = step(parser.end());
    const ended: StreamEnd =
      end ??
      (reader.finished() ? { kind: 'whole' } : { kind: 'broken', message: 'the vendor ended the stream early', errorForwarded: false });
    // An incomplete event is relayed only if it completes the response: a client could not parse an error event after it.
    if (hasStarted && isReadable && bytes.length > 0 && (ended.kind === 'whole' || ended.errorForwarded))
      yield { bytes: takeBuffered(bytes), isLast: ended.kind === 'whole' };
    return ended;
  } catch (cause) {
    if (cause instanceof SseEventTooLargeError) return { kind: 'broken', message: cause.message, errorForwarded: false };
    const error = toVendorError(cause, 'body');
    if (error.kind === 'aborted' || (error.kind === 'stopped' && !hasStarted)) throw error;
    return { kind: 'broken', message: error.message, errorForwarded: false };
  } finally {
    if (!isWhole) destroyBody(body);
  }
}
