/** Ceilings and their windows. A window is a calendar minute, day or month in UTC, or it never ends. */
import { dayMs, formatTimeOrNull, minuteAt, monthAt } from './time.ts';

/** What a ceiling counts. `rpm` counts calls per minute, and `tpm` counts tokens per minute. */
export type CeilingName = 'calls' | 'cost' | 'rpm' | 'tpm';

export type WindowKind = 'minute' | 'day' | 'month' | 'total';

export interface Ceiling {
  /** In calls, tokens or nano-dollars. Null for no limit. */
  readonly limit: number | null;
  readonly window: WindowKind;
}

export interface Window {
  readonly start: number;
  /** Null if the window never ends. */
  readonly end: number | null;
}

/** What to do if we can't check a call's ceilings because the database is unavailable: admit the call or refuse it. */
export type StoreDownPolicy = 'allow' | 'refuse';

export function windowAt(kind: WindowKind, epochMs: number): Window {
  switch (kind) {
    case 'minute':
      return minuteAt(epochMs);
    case 'day': {
      const start = Math.floor(epochMs / dayMs) * dayMs;
      return { start, end: start + dayMs };
    }
    case 'month': {
      const { start, end } = monthAt(epochMs);
      return { start, end };
    }
    case 'total':
      return { start: 0, end: null };
  }
}

/** Returns when the window ends, as RFC 3339, or null if it never ends. */
export function windowResetAt({ end }: Window): string | null {
  return formatTimeOrNull(end);
}
