/** Formats counts that may have stopped at a limit. */
import { formatCount } from '../frame/components.ts';

/** Returns e.g. `12`, or `1,000+` if there are more. */
export function formatBounded({ count, isMore }: { readonly count: number; readonly isMore: boolean }): string {
  return `${formatCount(count)}${isMore ? '+' : ''}`;
}
