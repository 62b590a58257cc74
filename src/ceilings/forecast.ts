/** Predicts when a ceiling will be reached at the current rate. */

export type Forecast =
  | { readonly kind: 'reached' }
  /** At the current rate, the ceiling will be reached at the time `at`, before the window ends. */
  | { readonly kind: 'at'; readonly at: number }
  /** The window ends first, if usage continues at this rate. */
  | { readonly kind: 'not_in_window' }
  /**
   * There's nothing useful to predict. Either there was no usage recently, or it would take more than a year to reach
   * the ceiling.
   */
  | { readonly kind: 'none' };

const yearMs = 366 * 86_400_000;

/**
 * Predicts when a ceiling will be reached. `rate` is the usage per millisecond. `end` is null if the window never ends.
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
