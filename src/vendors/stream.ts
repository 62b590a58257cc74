/** Relays a vendor's event stream: whole events, unchanged bytes, and word of how it ended. */
import type { Readable } from 'node:stream';
import type { SseEvent } from '../core/sse.ts';
import { createSseParser, SseEventTooLarge } from '../core/sse.ts';
import type { StreamReader } from '../dialects/contract/route-codec.ts';
import { endBody, vendorErrorOf } from './http-client.ts';
import { bytesWithoutSecrets, withoutSecrets } from './strip-secrets.ts';

/** How a stream ended: whole, or broken by the vendor. `told`: the vendor's own error event has been passed on. */
export type StreamEnd = { readonly kind: 'whole' } | { readonly kind: 'broken'; readonly message: string; readonly told: boolean };

/** Bytes of whole events; `last` marks those that complete the answer, so that it can be recorded before they leave. */
export interface StreamPiece {
  readonly bytes: Buffer;
  readonly last: boolean;
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
const heldLimitBytes = 1024 * 1024;

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
): AsyncGenerator<StreamPiece, StreamEnd> {
  const parser = createSseParser();
  let begun = false;
  let isWhole = false;
  let held: Buffer[] = [];
  let heldBytes = 0;

  const step = ({ bytes, events }: { bytes: Buffer; events: SseEvent[] }): Step => {
    let isReadable = true;
    for (const [position, event] of events.entries()) {
      const meaning = reader.read(event);
      isReadable = meaning !== 'unreadable';
      if (meaning === 'piece') begun = true;
      else if (meaning === 'end' && begun) return { bytes, end: { kind: 'whole' }, isReadable };
      else if (meaning === 'error') {
        // What the vendor sends behind its error, such as `[DONE]`, would make the answer look whole: it is cut off.
        const cut = bytesWithoutSecrets(bytes.subarray(0, events[position + 1]?.start ?? bytes.length), secrets);
        const message = withoutSecrets(reader.problem() ?? 'the vendor reported an error', secrets);
        return { bytes: cut, end: { kind: 'broken', message, told: begun }, isReadable };
      } else if (!isReadable && !begun) {
        return { bytes, end: { kind: 'broken', message: 'the stream is not of this dialect', told: false }, isReadable };
      }
    }
    return { bytes, end: null, isReadable };
  };

  const release = (bytes: Buffer): Buffer => {
    if (held.length === 0) return bytes;
    const all = Buffer.concat([...held, bytes]);
    held = [];
    return all;
  };

  try {
    for await (const chunk of body.iterator({ destroyOnReturn: false })) {
      const { bytes, end } = step(parser.push(chunk));
      if (end && !begun) return end;
      if (!begun) {
        if (bytes.length > 0) held.push(bytes);
        heldBytes += bytes.length;
        if (heldBytes > heldLimitBytes) return { kind: 'broken', message: 'no piece of an answer came', told: false };
        continue;
      }
      isWhole = end?.kind === 'whole';
      if (bytes.length > 0) yield { bytes: release(bytes), last: isWhole };
      if (end) return end;
    }
    const { bytes, end, isReadable } = step(parser.end());
    const ended: StreamEnd =
      end ?? (reader.finished() ? { kind: 'whole' } : { kind: 'broken', message: 'the vendor ended the stream early', told: false });
    // An event without its end is passed on only where it completes the answer: behind it no error event could be told apart.
    if (begun && isReadable && bytes.length > 0 && (ended.kind === 'whole' || ended.told))
      yield { bytes: release(bytes), last: ended.kind === 'whole' };
    return ended;
  } catch (cause) {
    if (cause instanceof SseEventTooLarge) return { kind: 'broken', message: cause.message, told: false };
    const error = vendorErrorOf(cause, 'body');
    if (error.fault === 'aborted' || (error.fault === 'stopped' && !begun)) throw error;
    return { kind: 'broken', message: error.message, told: false };
  } finally {
    if (!isWhole) endBody(body);
  }
}
