import { formatCount } from '../frame/components.ts';

/** Returns e.g. `12`, or `1,000+` if counting stopped at 1,000. */
export function formatBounded({ count, isMore }: { readonly count: number; readonly isMore: boolean }): string {
  return `${formatCount(count)}${isMore ? '+' : ''}`;
}
