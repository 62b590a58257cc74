/**
 * Estimates how many tokens the next call of a key and a model will use, from its recent calls. Ceilings of tokens per minute reserve this
 * estimate, because the most that a model may produce would let a key run one call at a time. See docs/architecture/ceilings.md#estimates.
 *
 * In memory, for each process: an unknown key or model is estimated by the defaults.
 */
import type { CallResult } from '../../core/call.ts';

/** Without recent calls. */
const defaultOutputTokens = 4_096;
/** Small calls must not make the estimate so small that thousands of large ones are admitted at once. */
const minOutputTokens = 1_024;
const minTokensPerByte = 0.2;
/** Bodies that are mostly encoded media say nothing about text. */
const minSampleTokensPerByte = 0.02;
/** A larger sample counts at once, a smaller one with this weight. */
const decay = 1 / 32;
/** About 2 MB. The least recently used entries go first, whatever key made them. */
const maxEntries = 10_000;

interface Entry {
  outputTokens: number;
  tokensPerByte: number;
}

export interface UsageEstimate {
  /** Of one choice. */
  readonly outputTokens: number;
  readonly tokensPerByte: number;
}

export interface UsageEstimates {
  estimate(keyId: string, model: string): UsageEstimate;
  /** Learns from a finished call with `choices` choices. Keys and models for which nothing was estimated are ignored. */
  observe(keyId: string, call: { readonly bodyBytes: number; readonly choices: number }, result: CallResult): void;
}

export const defaultEstimate: UsageEstimate = { outputTokens: defaultOutputTokens, tokensPerByte: 1 };

export function createUsageEstimates(): UsageEstimates {
  const entries = new Map<string, Entry>();

  return {
    estimate(keyId, model) {
      const name = `${keyId} ${model}`;
      const entry = entries.get(name) ?? { ...defaultEstimate };
      // Inserted again, so that the map's order is the order of use.
      entries.delete(name);
      entries.set(name, entry);
      if (entries.size > maxEntries) for (const oldest of entries.keys().take(1)) entries.delete(oldest);
      return entry;
    },
    observe(keyId, { bodyBytes, choices }, { outcome, estimated, model, tokens }) {
      if (outcome !== 'ok' || estimated || model === null) return;
      const entry = entries.get(`${keyId} ${model}`);
      if (!entry) return;
      entry.outputTokens = Math.max(minOutputTokens, decayTo(tokens.output / choices, entry.outputTokens));
      const sample = (tokens.input + tokens.cachedInput + tokens.cacheWrite + tokens.cacheWrite1h) / bodyBytes;
      if (sample < minSampleTokensPerByte) return;
      entry.tokensPerByte = Math.min(1, Math.max(minTokensPerByte, decayTo(sample, entry.tokensPerByte)));
    },
  };
}

/** A decaying maximum: a few small calls after a large one hardly change it. */
function decayTo(sample: number, current: number): number {
  return sample >= current ? sample : current + (sample - current) * decay;
}
