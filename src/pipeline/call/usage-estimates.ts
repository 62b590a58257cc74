/**
 * Estimates how many tokens the next call to a model will use, based on recent calls of the same key. This is what we
 * reserve on tokens-per-minute ceilings. If we reserved the model's maximum, a key could only run one call at a time.
 * See docs/architecture/ceilings.md#estimates.
 *
 * Each process keeps its own estimates in memory, and uses defaults for keys and models that it hasn't seen yet.
 */
import { LRUCache } from 'lru-cache';
import type { CallResult } from '../../core/call.ts';

/** The output tokens that we expect if a key hasn't used a model recently. */
const defaultOutputTokens = 4_096;
/**
 * Without this lower bound, small calls could shrink the estimate so far that we admit thousands of large calls at
 * once.
 */
const minOutputTokens = 1_024;
const minTokensPerByte = 0.2;
/**
 * We ignore bodies with fewer tokens per byte than this. They mostly consist of encoded media and tell us nothing about
 * text.
 */
const minSampleTokensPerByte = 0.02;
/**
 * The weight of a sample that is lower than the current estimate. A higher sample replaces the estimate immediately.
 */
const decay = 1 / 32;
/**
 * The maximum number of keys with estimates, which take up a few megabytes. We evict the least recently used key first.
 */
const maxKeys = 10_000;

interface Entry {
  outputTokens: number;
  tokensPerByte: number;
}

export interface UsageEstimate {
  /** Per choice. */
  readonly outputTokens: number;
  readonly tokensPerByte: number;
}

export interface UsageEstimates {
  estimate(keyId: string, model: string): UsageEstimate;
  /**
   * Updates the estimates with a finished call. Does nothing if `estimate` hasn't been called for this key and model
   * before.
   */
  observe(keyId: string, call: { readonly bodyBytes: number; readonly choices: number }, result: CallResult): void;
}

export const defaultEstimate: UsageEstimate = { outputTokens: defaultOutputTokens, tokensPerByte: 1 };

export function createUsageEstimates(): UsageEstimates {
  /** We nest maps because two lookups are cheaper than concatenating the key and the model for each call. */
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

/**
 * Returns the new value of an estimate. If the sample is higher, we adopt it immediately. If it's lower, the estimate
 * only decays slowly, so that a few small calls after a large one hardly change it.
 */
function decayTo(sample: number, current: number): number {
  return sample >= current ? sample : current + (sample - current) * decay;
}
