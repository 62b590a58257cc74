/** Relays a vendor's event stream: whole events, unchanged bytes, and word of how it ended. */
import type { Readable } from 'node:stream';
import type { SseEvent } from '../core/sse.ts';
import { createSseParser, SseEventTooLargeError } from '../core/sse.ts';
import type { StreamReader } from '../dialects/contract/route-codec.ts';
import { destroyBody, toVendorError } from './http-client.ts';
import { stripSecrets, stripSecretsFromBytes } from './strip-secrets.ts';

/** How a stream ended: whole, or broken by the vendor. `told`: the vendor's own error event has been passed on. */
export type StreamEnd =
  | { readonly kind: 'whole' }
  | { readonly kind: 'broken'; readonly message: string; readonly errorForwarded: boolean };

/** Bytes of whole events; `last` marks those that complete the answer, so that it can be recorded before they leave. */
export interface StreamChunk {
  readonly bytes: Buffer;
  readonly isLast: boolean;
}

/** What a batch of whole events comes to. */
interface Step {
  readonly bytes: Buffer;
  /** Null: the stream goes on. */
  readonly end: StreamEnd | null;
  /** The last event of the batch is one of the dialect. */
  readonly isReadable: boolean;
}

/** Keep-alives that may wait for the first piece; a vendor that sends nothing else must not fill the memory. */
const maxBufferedBytes = 1024 * 1024;

/**
 * Yields nothing before the first piece of the answer has come: keep-alives wait, since until then another model can still be tried.
 * A stream that fails before that returns `broken` without having yielded. Throws VendorError `aborted` when our own side
 * ended it, and `stopped` before the first piece when the service ends. The vendor's error event is passed on without the `secrets` it may repeat.
 *
 * Behind a whole answer `body` stays open, so that its connection can be used again; in every other case it is ended.
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

  const step = ({ bytes, events }: { bytes: Buffer; events: SseEvent[] }): Step => {
    let isReadable = true;
    for (const [index, event] of events.entries()) {
      const kind = reader.read(event);
      isReadable = kind !== 'unreadable';
      if (kind === 'piece') hasStarted = true;
      else if (kind === 'end' && hasStarted) return { bytes, end: { kind: 'whole' }, isReadable };
      else if (kind === 'error') {
        // What the vendor sends behind its error, such as `[DONE]`, would make the answer look whole: it is cut off.
        const cut = stripSecretsFromBytes(bytes.subarray(0, events[index + 1]?.start ?? bytes.length), secrets);
        const message = stripSecrets(reader.problem() ?? 'the vendor reported an error', secrets);
        return { bytes: cut, end: { kind: 'broken', message, errorForwarded: hasStarted }, isReadable };
      } else if (!isReadable && !hasStarted) {
        return { bytes, end: { kind: 'broken', message: 'the stream is not of this dialect', errorForwarded: false }, isReadable };
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
        if (bufferedBytes > maxBufferedBytes) return { kind: 'broken', message: 'no piece of an answer came', errorForwarded: false };
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
    // An event without its end is passed on only where it completes the answer: behind it no error event could be told apart.
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
