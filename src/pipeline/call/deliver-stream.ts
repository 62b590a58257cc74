import type { Call, Outcome } from '../../core/call.ts';
import { VendorError } from '../../core/errors.ts';
import type { ResponseSummary } from '../../dialects/contract/route-codec.ts';
import { routeCodecs } from '../../dialects/routes/route-codecs.ts';
import { omitUsage, type StreamChunk, type StreamEnd, toStreamError } from '../../vendors/stream.ts';
import type { StreamResponse } from '../../vendors/text.ts';
import { lingerMs } from './cancellation.ts';

interface StreamDelivery {
  readonly call: Call;
  readonly response: Pick<StreamResponse, 'chunks' | 'summary' | 'formatFailure'>;
  /** Called once, before the last chunk is written. `problem` says why the stream broke. */
  readonly onEnd: (summary: ResponseSummary, outcome: Outcome, problem?: VendorError) => Promise<void>;
  /**
   * Called with each chunk before it's written. The bytes still include the usage, even if we remove it from what the
   * caller gets.
   */
  readonly onChunk?: ((bytes: Buffer) => void) | undefined;
  /** Returns true if the vendor has sent all of the output and only the usage is still missing. */
  readonly hasAllOutput?: () => boolean;
}

/**
 * The maximum number of bytes that we read after the caller has left. It has to be large because the last event of
 * `/v1/responses` repeats the whole response.
 */
const maxUnreadBytes = 4 * 1024 * 1024;

/** Writes bytes of a stream. Returns a promise if the reader is slow, and false if it has left. */
export type WriteChunk = (bytes: Buffer) => boolean | Promise<boolean>;

/**
 * `broken` means that the stream stopped early. Don't close the connection cleanly in this case, or the caller would
 * think that the response is complete.
 */
export type DeliveryEnd = 'ended' | 'broken';

/** Writes the stream until it ends or the reader is gone. */
export type DeliverStream = (write: WriteChunk) => Promise<DeliveryEnd>;

/**
 * Writes a stream to the caller and leaves out usage that the caller didn't ask for. Calls `onEnd` when the stream is
 * complete, the vendor breaks it off, or the caller leaves. Unexpected errors are thrown without calling `onEnd`.
 */
export async function deliverStream(
  { call, response, onEnd, onChunk, hasAllOutput = () => false }: StreamDelivery,
  write: WriteChunk,
): Promise<DeliveryEnd> {
  const chunks = response.chunks();
  let isSettled = false;
  const settleAs = async (outcome: Outcome, problem?: VendorError): Promise<void> => {
    if (isSettled) return;
    isSettled = true;
    await onEnd(response.summary(), outcome, problem);
  };
  const send = (chunk: StreamChunk): boolean | Promise<boolean> => {
    const sent = chunk.usage && call.hidesUsage ? omitUsage(chunk) : chunk.bytes;
    return sent.length === 0 || write(sent);
  };
  /**
   * Writes the chunks that have already arrived. Stops at the last chunk, at the end of the stream, or at a write that
   * is pending or has failed, and returns what made it stop. Returns null if no more chunks have arrived yet.
   */
  const sendArrived = (): StreamChunk | StreamEnd | false | Promise<boolean> | null => {
    for (;;) {
      const step = chunks.read();
      if (step?.kind !== 'chunk') return step;
      onChunk?.(step.bytes);
      if (step.isLast) return step;
      const written = send(step);
      if (written !== true) return written;
    }
  };
  /**
   * Reads the chunks that have arrived, although we can no longer deliver them. The vendor bills them, so we need the
   * usage in them. If the vendor has sent all of the output, this also waits up to `lingerMs` for the final usage.
   */
  const readUndelivered = async (): Promise<void> => {
    const timer = setTimeout(() => chunks.close(), lingerMs);
    try {
      for (let bytes = 0; bytes < maxUnreadBytes; ) {
        const step = chunks.read();
        if (step === null) {
          if (!hasAllOutput()) return;
          await chunks.ready();
        } else if (step.kind !== 'chunk' || step.isLast) return;
        else bytes += step.bytes.length;
      }
    } finally {
      clearTimeout(timer);
    }
  };
  const leave = async (): Promise<DeliveryEnd> => {
    await readUndelivered();
    return 'ended';
  };
  try {
    for (;;) {
      const step = sendArrived();
      if (step === null) await chunks.ready();
      else if (step === false) return await leave();
      else if (step instanceof Promise) {
        if (!(await step)) return await leave();
      } else if (step.kind === 'chunk') {
        await settleAs('ok');
        if (!(await send(step))) return 'ended';
      } else {
        await (step.kind === 'whole' ? settleAs('ok') : settleAs('interrupted', toStreamError(step)));
        if (step.kind === 'whole') return 'ended';
        const event = response.formatFailure?.(step.message) ?? routeCodecs[call.route].formatStreamError(step.message);
        if (event !== null && !step.errorForwarded) await write(Buffer.from(event));
        // After an error, messages streams end with a broken connection, because some clients ignore the error event.
        // Clients of /v1/responses understand `response.failed`, so those streams end normally.
        return call.route === 'responses' ? 'ended' : 'broken';
      }
    }
  } catch (error) {
    if (!(error instanceof VendorError)) {
      isSettled = true;
      throw error;
    }
    // The caller is gone. `finally` settles the call with whatever the vendor has sent.
    return 'ended';
  } finally {
    chunks.close();
    await settleAs('client_left');
  }
}
