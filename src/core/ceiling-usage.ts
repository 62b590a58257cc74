/**
 * Computes how much a settled call counts against ceilings. The column `calls.vendor_called` stores `reachedVendor`, so
 * that SQL can count call rows.
 */
import type { CallResult } from './call.ts';
import { clampToSafeInteger } from './cost.ts';
import type { CeilingName } from './windows.ts';

/**
 * Reports whether we sent a request to a vendor. It's false for cache hits, and for calls that no candidate's dialect
 * can express.
 */
export function reachedVendor({ cache, attempts }: CallResult): boolean {
  return cache !== 'hit' && attempts.some(({ outcome, status }) => outcome !== 'refused' || status !== null);
}

/**
 * Returns the usage in the unit of the ceiling (calls, tokens or nano-dollars). We cap it at the largest safe integer
 * because vendors may report any number.
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
