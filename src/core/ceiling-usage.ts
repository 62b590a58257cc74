/**
 * Computes how much a settled call counts against a ceiling. Our SQL queries that sum up stored calls have to get the
 * same result, so we store the result of `reachedVendor` in the column `calls.vendor_called`.
 */
import type { CallResult } from './call.ts';
import { clampToSafeInteger } from './cost.ts';
import type { CeilingName } from './windows.ts';

/** Returns false for cache hits, and for calls that we couldn't translate to the dialect of any candidate. */
export function reachedVendor({ cache, attempts }: CallResult): boolean {
  return cache !== 'hit' && attempts.some(({ outcome, status }) => outcome !== 'refused' || status !== null);
}

/**
 * Returns the usage in the ceiling's unit (calls, tokens or nano-dollars). The result is capped at the largest safe
 * integer because vendors can report any number.
 */
export function usageFor(ceiling: CeilingName, result: CallResult): number {
  return clampToSafeInteger(uncappedUsage(ceiling, result));
}

function uncappedUsage(ceiling: CeilingName, result: CallResult): number {
  switch (ceiling) {
    case 'calls':
    case 'rpm':
      return reachedVendor(result) ? 1 : 0;
    case 'tpm': {
      const { input, cachedInput, cacheWrite, cacheWrite1h, output } = result.tokens;
      return reachedVendor(result) ? input + cachedInput + cacheWrite + cacheWrite1h + output : 0;
    }
    case 'cost':
      return result.costNanos ?? 0;
  }
}
