/** We stop counting at a limit, and this formats the result. */
import { formatCount } from '../frame/components.ts';

/** Returns e.g. `12`, or `1,000+` if we stopped at 1,000. */
export function formatBounded({ count, isMore }: { readonly count: number; readonly isMore: boolean }): string {
  return `${formatCount(count)}${isMore ? '+' : ''}`;
}
