/**
 * Tracks calls that were in flight when their process died. We settle them as `unknown` and estimate the cost from the
 * request.
 */
import type { Attempt, AttemptError, CallMetadata, SettledCall } from '../core/call.ts';
import { noTokens, type Tokens, type Units } from '../core/pricing.ts';
import { estimateTokens } from '../dialects/contract/token-usage.ts';
import type { AttemptStart, JournalRecord } from './record.ts';

export type UnfinishedCalls = ReturnType<typeof createUnfinishedCalls>;

/** The usage that we charge for an unfinished call, as estimated from its request. */
export interface RequestedUsage {
  readonly tokens: Tokens;
  readonly units: Units;
  readonly searches: number;
}

/** Estimates the cost in nano-dollars for `<provider>/<model>`. Returns null if the model has no price. */
export type EstimateCost = (model: string, requested: RequestedUsage) => number | null;

export function createUnfinishedCalls(estimateCost: EstimateCost) {
  const calls = new Map<string, CallMetadata>();
  // We may see an attempt before its call, because the `opened` record may have been copied to a newer segment.
  const attempts = new Map<string, Map<number, AttemptStart>>();

  const addAttempts = (callId: string, starts: readonly AttemptStart[]): void => {
    const byNumber = attempts.get(callId) ?? new Map<number, AttemptStart>();
    for (const start of starts) byNumber.set(start.n, start);
    attempts.set(callId, byNumber);
  };

  const settle = (call: CallMetadata): SettledCall => {
    const starts = [...(attempts.get(call.id)?.values() ?? [])].toSorted((one, other) => one.n - other.n);
    const last = starts.at(-1);
    const tokens = { ...noTokens, input: estimateTokens(call.bodyBytes) };
    const model = last ? `${last.provider}/${last.model}` : null;
    const searches = call.route === 'rerank' ? 1 : 0;
    const costNanos = model === null ? 0 : estimateCost(model, { tokens, units: call.units ?? {}, searches });
    const units = call.route === 'rerank' ? { searches } : call.units;
    return {
      metadata: call,
      result: {
        outcome: 'unknown',
        status: 500,
        code: null,
        // Any of the candidates may have responded. We assume it was the last one, so we charge its price.
        model,
        cache: null,
        tokens,
        costNanos,
        ...(units && { units }),
        estimated: true,
        durationMs: last ? Math.max(0, last.startedAt - call.startedAt) : 0,
        firstByteMs: null,
        attempts: starts.map((start) => unknownAttempt(start, start === last ? { tokens, costNanos } : { tokens: noTokens, costNanos: 0 })),
      },
      content: null,
    };
  };

  return {
    observe(record: JournalRecord): void {
      if (record.kind === 'opened') {
        calls.set(record.metadata.id, record.metadata);
        addAttempts(record.metadata.id, record.attempts);
      } else if (record.kind === 'attempt') {
        addAttempts(record.callId, [record.attempt]);
      }
    },
    settled(callId: string): void {
      calls.delete(callId);
      attempts.delete(callId);
    },
    /**
     * Returns the remaining calls as settled calls. We keep each of them until `settled` is called, so you can call
     * this again if you couldn't store them.
     */
    settleAll: (): SettledCall[] => [...calls.values()].map(settle),
  };
}

const lost: AttemptError = { reason: 'lost', type: null, code: null, message: 'the process ended before it recorded the result' };

function unknownAttempt(start: AttemptStart, { tokens, costNanos }: Pick<Attempt, 'tokens' | 'costNanos'>): Attempt {
  return { ...start, status: null, outcome: 'unknown', waitMs: 0, firstByteMs: null, durationMs: 0, tokens, costNanos, error: lost };
}
