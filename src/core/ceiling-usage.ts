/** What a settled call counts for against ceilings. `calls.vendor_called` holds the same, so that SQL can count call rows. */
import type { CallResult } from './call.ts';
import type { CeilingName } from './windows.ts';

/** A call uses a slot once a vendor was asked (shapes 21): not a cache hit, and not one that no vendor's dialect could express. */
export function reachedVendor({ cache, attempts }: CallResult): boolean {
  return cache !== 'hit' && attempts.some(({ outcome, status }) => outcome !== 'refused' || status !== null);
}

/** In the ceiling's unit: calls, tokens or nano-dollars. Vendors may tell any number; neither sums nor the database count further. */
export function usageFor(ceiling: CeilingName, result: CallResult): number {
  return Math.min(Number.MAX_SAFE_INTEGER, uncappedUsage(ceiling, result));
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
