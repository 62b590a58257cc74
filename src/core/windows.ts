/** Ceilings and the windows in which they count. A window is a calendar minute, day or month in UTC, or never ends. */
import { dayMs, formatTimeOrNull, minuteAt, monthAt } from './time.ts';

/** What a ceiling counts. `rpm` counts calls per minute, and `tpm` counts tokens per minute. */
export type CeilingName = 'calls' | 'cost' | 'rpm' | 'tpm';

export type WindowKind = 'minute' | 'day' | 'month' | 'total';

export interface Ceiling {
  /** The limit in calls, tokens or nano-dollars. Null if there's none. */
  readonly limit: number | null;
  readonly window: WindowKind;
}

export interface Window {
  readonly start: number;
  /** The end of the window (exclusive), or null if the window never ends. */
  readonly end: number | null;
}

/** Whether we admit or refuse calls while the database is down and we can't check their ceilings. */
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

/** Returns the end of the window as RFC 3339, or null if it never ends. */
export function windowResetAt({ end }: Window): string | null {
  return formatTimeOrNull(end);
}
