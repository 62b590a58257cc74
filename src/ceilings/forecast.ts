/** Predicts when a ceiling will be reached at the current rate. */

export type Forecast =
  | { readonly kind: 'reached' }
  /** If usage goes on at the current rate, the ceiling is reached before the window ends, at the time `at`. */
  | { readonly kind: 'at'; readonly at: number }
  /** If usage goes on at the current rate, the window ends first. */
  | { readonly kind: 'not_in_window' }
  /**
   * We can't make a useful prediction. Either nothing was used recently, or it would take more than a year to reach the
   * ceiling.
   */
  | { readonly kind: 'none' };

const yearMs = 366 * 86_400_000;

/**
 * Predicts when a ceiling will be reached. `rate` is the usage per millisecond, and `end` is null for a window that
 * never ends.
 */
export function forecastCeiling({
  limit,
  used,
  rate,
  now,
  end,
}: {
  readonly limit: number;
  readonly used: number;
  readonly rate: number;
  readonly now: number;
  readonly end: number | null;
}): Forecast {
  if (used >= limit) return { kind: 'reached' };
  if (rate <= 0) return { kind: 'none' };
  const at = now + (limit - used) / rate;
  if (end !== null && at >= end) return { kind: 'not_in_window' };
  return at > now + yearMs ? { kind: 'none' } : { kind: 'at', at: Math.round(at) };
}
