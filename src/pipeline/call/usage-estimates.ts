/**
 * Estimates how many tokens the next call of a key to a model will use, based on recent calls. Ceilings of tokens per
 * minute reserve this estimate. If they reserved the model's maximum, a key could only run one call at a time. See
 * docs/architecture/ceilings.md#estimates.
 *
 * Each process keeps its estimates in memory, and uses defaults for keys and models that it hasn't seen.
 */
import { LRUCache } from 'lru-cache';
import type { CallResult } from '../../core/call.ts';

/** Used for a key and model without recent calls. */
const defaultOutputTokens = 4_096;
/** Keeps small calls from shrinking the estimate so far that thousands of large calls are admitted at once. */
const minOutputTokens = 1_024;
const minTokensPerByte = 0.2;
/** We ignore bodies below this ratio. They are mostly encoded media and tell us nothing about text. */
const minSampleTokensPerByte = 0.02;
/** The weight of a sample below the current estimate. A larger sample replaces the estimate immediately. */
const decay = 1 / 32;
/** Enough for a few megabytes. We evict the key that hasn't been used for the longest time. */
const maxKeys = 10_000;

interface Entry {
  outputTokens: number;
  tokensPerByte: number;
}

export interface UsageEstimate {
  /** The output tokens of one choice. */
  readonly outputTokens: number;
  readonly tokensPerByte: number;
}

export interface UsageEstimates {
  estimate(keyId: string, model: string): UsageEstimate;
  /**
   * Learns from a finished call that had `choices` choices. Ignores keys and models that have not been estimated
   * before.
   */
  observe(keyId: string, call: { readonly bodyBytes: number; readonly choices: number }, result: CallResult): void;
}

export const defaultEstimate: UsageEstimate = { outputTokens: defaultOutputTokens, tokensPerByte: 1 };

export function createUsageEstimates(): UsageEstimates {
  /** We look up the key and then the model, because joining the two names for every call takes longer. */
  const entriesOfKeys = new LRUCache<string, Map<string, Entry>>({ max: maxKeys });

  return {
    estimate(keyId, model) {
      let entries = entriesOfKeys.get(keyId);
      if (!entries) {
        entries = new Map();
        entriesOfKeys.set(keyId, entries);
      }
      let entry = entries.get(model);
      if (!entry) {
        entry = { ...defaultEstimate };
        entries.set(model, entry);
      }
      return entry;
    },
    observe(keyId, { bodyBytes, choices }, { outcome, estimated, model, tokens }) {
      if (outcome !== 'ok' || estimated || model === null) return;
      const entry = entriesOfKeys.peek(keyId)?.get(model);
      if (!entry) return;
      entry.outputTokens = Math.max(minOutputTokens, decayTo(tokens.output / choices, entry.outputTokens));
      const sample = (tokens.input + tokens.cachedInput + tokens.cacheWrite + tokens.cacheWrite1h) / bodyBytes;
      if (sample < minSampleTokensPerByte) return;
      entry.tokensPerByte = Math.min(1, Math.max(minTokensPerByte, decayTo(sample, entry.tokensPerByte)));
    },
  };
}

/** Returns a decaying maximum, so that a few small calls after a large one hardly change the estimate. */
function decayTo(sample: number, current: number): number {
  return sample >= current ? sample : current + (sample - current) * decay;
}
