/**
 * Settled calls that could not be written, not even with the reserve given up: they wait in memory until the journal can be written again.
 * Bounded by bytes. When it is full, texts go first (a call without its text is still charged and counted); only when not even
 * that helps is a call lost, and then its money is in the log.
 */
import type { SettledCall } from '../core/call.ts';
import type { Logger } from '../observability/logger.ts';
import { encodeRecord } from './record.ts';

export interface ParkedCall {
  readonly call: SettledCall;
  readonly buffers: readonly Buffer[];
}

export interface ParkedCalls {
  readonly size: number;
  /** How many were lost because not even their money had room. */
  readonly lost: number;
  add(call: SettledCall): void;
  /** The one that waits longest, which stays until it is `remove`d. */
  first(): ParkedCall | undefined;
  remove(parked: ParkedCall): void;
}

export function createParkedCalls({ maxBytes, logger }: { maxBytes: number; logger: Logger }): ParkedCalls {
  const parked = new Map<string, ParkedCall>();
  let bytes = 0;
  let lost = 0;

  const insert = (call: SettledCall, buffers: readonly Buffer[]): void => {
    parked.set(call.facts.id, { call, buffers });
    bytes += sizeOf(buffers);
  };

  const take = (entry: ParkedCall): void => {
    if (parked.delete(entry.call.facts.id)) bytes -= sizeOf(entry.buffers);
  };

  const dropContents = (): void => {
    for (const entry of [...parked.values()].filter(({ call }) => call.content !== null)) {
      take(entry);
      const call = { ...entry.call, content: null };
      insert(call, encodeRecord({ kind: 'settled', call }));
    }
  };

  return {
    get size() {
      return parked.size;
    },
    get lost() {
      return lost;
    },
    add(call) {
      insert(call, encodeRecord({ kind: 'settled', call }));
      logger.error({ call: call.facts.id, parked: parked.size }, 'the journal cannot be written: a settled call waits in memory');
      if (bytes > maxBytes) dropContents();
      for (const entry of parked.values()) {
        if (bytes <= maxBytes) break;
        take(entry);
        lost += 1;
        logger.error(
          billingFields(entry.call),
          'a settled call is lost: the journal cannot be written and the memory for waiting calls is full',
        );
      }
    },
    first: () => parked.values().next().value,
    remove: take,
  };
}

/** What must be known of a call to charge it by hand; no text, no subject. */
export function billingFields({ facts, result }: SettledCall): Record<string, unknown> {
  return {
    call: facts.id,
    project: facts.projectId,
    key: facts.keyPrefix,
    model: result.model,
    tokens: result.tokens,
    costNanos: result.costNanos,
    outcome: result.outcome,
  };
}

function sizeOf(buffers: readonly Buffer[]): number {
  return buffers.reduce((sum, buffer) => sum + buffer.length, 0);
}
