/**
 * If settled calls can't be written even after we've deleted the ballast file, we keep them in memory until the journal
 * is writable again. When they need too much memory, we first drop the text of calls, because we can still charge and
 * count a call without its text. If that isn't enough, we drop the oldest call and log its tokens and cost.
 */
import type { CallMetadata, SettledCall } from '../core/call.ts';
import type { LogFields } from '../observability/log-fields.ts';
import type { Logger } from '../observability/logger.ts';
import { traceField } from '../observability/tracing.ts';
import { encodeRecord } from './record.ts';

interface ParkedCall {
  readonly call: SettledCall;
  readonly bytes: number;
}

export interface ParkedCallsOptions {
  readonly maxBytes: number;
  readonly logger: Logger;
  /** Called with each call that we drop because there's no memory left for parked calls. */
  readonly onLost: (call: SettledCall) => void;
}

export function createParkedCalls({ maxBytes, logger, onLost }: ParkedCallsOptions) {
  const parked = new Map<string, ParkedCall>();
  /**
   * The id of the call that we're writing. We can't drop this call, because it might be stored after we've reported it
   * as lost.
   */
  let writing: string | null = null;
  let bytes = 0;
  let lost = 0;

  const insert = (call: SettledCall): void => {
    const entry = { call, bytes: sizeOf(encodeRecord({ kind: 'settled', call })) };
    parked.set(call.metadata.id, entry);
    bytes += entry.bytes;
  };

  const remove = (callId: string): void => {
    const entry = parked.get(callId);
    if (entry && parked.delete(callId)) bytes -= entry.bytes;
  };

  const dropContents = (): void => {
    for (const { call } of [...parked.values()].filter((entry) => entry.call.content !== null)) {
      remove(call.metadata.id);
      insert({ ...call, content: null });
    }
  };

  return {
    get size() {
      return parked.size;
    },
    /** The number of calls that were dropped because the memory was full. */
    get lost() {
      return lost;
    },
    add(call: SettledCall): void {
      insert(call);
      logger.error({ call: call.metadata.id, parked: parked.size }, 'journal not writable; keeping the call record in memory');
      if (bytes > maxBytes) dropContents();
      for (const [callId, oldest] of parked) {
        if (bytes <= maxBytes) break;
        if (callId === writing) continue;
        remove(callId);
        lost += 1;
        logger.error(
          billingFields(oldest.call),
          'call record lost, because the journal is not writable and memory for call records is full',
        );
        onLost(oldest.call);
      }
    },
    /**
     * Passes the oldest parked call to `write`. The call stays parked until you call `remove`. Resolves to false if no
     * call is parked. Rejects if `write` does.
     */
    async writeOldest(write: (call: SettledCall) => Promise<void>): Promise<boolean> {
      const call = parked.values().next().value?.call;
      if (!call) return false;
      writing = call.metadata.id;
      try {
        await write(call);
      } finally {
        writing = null;
      }
      return true;
    },
    remove,
  };
}

/** Returns log fields that identify a call but don't reveal anything about its request. */
export function callFields({ id, trace }: CallMetadata): LogFields {
  return { call: id, ...traceField(trace) };
}

/**
 * Returns the log fields that an operator needs in order to charge a lost call manually. They contain neither its text
 * nor its subject.
 */
export function billingFields({ metadata, result }: SettledCall): LogFields {
  return {
    ...callFields(metadata),
    projectId: metadata.projectId,
    key: metadata.keyPrefix,
    model: result.model,
    tokens: result.tokens,
    costNanos: result.costNanos,
    outcome: result.outcome,
  };
}

function sizeOf(buffers: readonly Buffer[]): number {
  return buffers.reduce((sum, buffer) => sum + buffer.length, 0);
}
