import type { Call, Outcome } from '../../core/call.ts';
import { VendorError } from '../../core/errors.ts';
import type { ResponseSummary } from '../../dialects/contract/route-codec.ts';
import { routeCodecs } from '../../dialects/routes/route-codecs.ts';
import { omitUsage } from '../../vendors/stream.ts';
import type { StreamResponse } from '../../vendors/text.ts';

interface StreamDelivery {
  readonly call: Call;
  readonly response: Pick<StreamResponse, 'chunks' | 'summary'>;
  /** Called once, before the last chunk is yielded. */
  readonly onEnd: (summary: ResponseSummary, outcome: Outcome) => Promise<void>;
  /** Called with the bytes of each chunk before it is yielded, with usage also where the caller does not get it. */
  readonly onChunk?: ((bytes: Buffer) => void) | undefined;
}

/** Yields the chunks of a stream, without usage that the caller did not ask for, and calls `onEnd` however it ends: complete, broken by the vendor, or abandoned by the caller. */
export async function* deliverStream({ call, response, onEnd, onChunk }: StreamDelivery): AsyncGenerator<Buffer, void> {
  const chunks = response.chunks();
  let isSettled = false;
  const settleAs = async (outcome: Outcome): Promise<void> => {
    if (isSettled) return;
    isSettled = true;
    await onEnd(response.summary(), outcome);
  };
  try {
    for (;;) {
      const step = chunks.read();
      if (step === null) await chunks.ready();
      else if (step.kind === 'chunk') {
        const { bytes, isLast, usage } = step;
        onChunk?.(bytes);
        if (isLast) await settleAs('ok');
        const sent = usage && call.hidesUsage ? omitUsage(step) : bytes;
        if (sent.length > 0) yield sent;
      } else {
        await settleAs(step.kind === 'whole' ? 'ok' : 'interrupted');
        const event = step.kind === 'broken' && !step.errorForwarded ? routeCodecs[call.route].formatStreamError(step.message) : null;
        if (event !== null) yield Buffer.from(event);
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
