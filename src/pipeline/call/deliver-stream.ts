import type { Call, Outcome } from '../../core/call.ts';
import { VendorError } from '../../core/errors.ts';
import type { ResponseSummary } from '../../dialects/contract/route-codec.ts';
import { routeCodecs } from '../../dialects/routes/route-codecs.ts';
import { omitUsage, type StreamChunk, type StreamEnd } from '../../vendors/stream.ts';
import type { StreamResponse } from '../../vendors/text.ts';

interface StreamDelivery {
  readonly call: Call;
  readonly response: Pick<StreamResponse, 'chunks' | 'summary'>;
  /** Called once, before the last chunk is written. */
  readonly onEnd: (summary: ResponseSummary, outcome: Outcome) => Promise<void>;
  /** Called with the bytes of each chunk before it is written, with usage also where the caller does not get it. */
  readonly onChunk?: ((bytes: Buffer) => void) | undefined;
}

/** Takes the bytes of a stream. A promise when the reader is slow; false when it has left. */
export type WriteChunk = (bytes: Buffer) => boolean | Promise<boolean>;

/** Writes a stream to its end, or until its reader leaves. */
export type DeliverStream = (write: WriteChunk) => Promise<void>;

/** Writes the chunks of a stream, without usage that the caller did not ask for, and calls `onEnd` however it ends: complete, broken by the vendor, or abandoned by the caller. */
export async function deliverStream({ call, response, onEnd, onChunk }: StreamDelivery, write: WriteChunk): Promise<void> {
  const chunks = response.chunks();
  let isSettled = false;
  const settleAs = async (outcome: Outcome): Promise<void> => {
    if (isSettled) return;
    isSettled = true;
    await onEnd(response.summary(), outcome);
  };
  const send = (chunk: StreamChunk): boolean | Promise<boolean> => {
    const sent = chunk.usage && call.hidesUsage ? omitUsage(chunk) : chunk.bytes;
    return sent.length === 0 || write(sent);
  };
  /** Writes what has arrived. Returns null when there is no more, else what must be waited for: a write, the last chunk, the end. */
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
  try {
    for (;;) {
      const step = sendArrived();
      if (step === null) await chunks.ready();
      else if (step === false) return;
      else if (step instanceof Promise) {
        if (!(await step)) return;
      } else if (step.kind === 'chunk') {
        await settleAs('ok');
        if (!(await send(step))) return;
      } else {
        await settleAs(step.kind === 'whole' ? 'ok' : 'interrupted');
        const event = step.kind === 'broken' && !step.errorForwarded ? routeCodecs[call.route].formatStreamError(step.message) : null;
        if (event !== null) await write(Buffer.from(event));
        return;
      }
    }
  } catch (error) {
    if (!(error instanceof VendorError)) throw error;
    // The caller disconnected: `finally` settles what was delivered.
  } finally {
    chunks.close();
    await settleAs('client_left');
  }
}
