/** Predicts when a ceiling will be reached at the current rate. */

export type Forecast =
  | { readonly kind: 'reached' }
  /** The ceiling will be reached at this time, before the window ends. */
  | { readonly kind: 'at'; readonly at: number }
  /** The window ends before the ceiling is reached. */
  | { readonly kind: 'not_in_window' }
  /** Nothing was used recently, or it would take more than a year. */
  | { readonly kind: 'none' };

const yearMs = 366 * 86_400_000;

/** `rate` is usage per millisecond. `end` is null for a window that never ends. */
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
