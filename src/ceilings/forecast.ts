export type Forecast =
  | { readonly kind: 'reached' }
  /** The ceiling will be reached at the time `at`, which is before the window ends. */
  | { readonly kind: 'at'; readonly at: number }
  /** The ceiling won't be reached before the window ends. */
  | { readonly kind: 'not_in_window' }
  /** We can't make a useful prediction, because nothing was used recently or the ceiling is more than a year away. */
  | { readonly kind: 'none' };

const yearMs = 366 * 86_400_000;

/** `rate` is the usage per millisecond. `end` is null if the window never ends. */
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
