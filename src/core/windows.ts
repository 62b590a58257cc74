/** Ceilings and their windows: a calendar month, day or minute in UTC, or all time. */
import { dayMs, formatTimeOrNull, minuteAt, monthAt } from './time.ts';

/** What a ceiling counts: calls, nano-dollars, calls of a minute, tokens of a minute. */
export type CeilingName = 'calls' | 'cost' | 'rpm' | 'tpm';

export type WindowKind = 'minute' | 'day' | 'month' | 'total';

export interface Ceiling {
  /** Calls, tokens or nano-dollars; null for no limit. */
  readonly limit: number | null;
  readonly window: WindowKind;
}

export interface Window {
  readonly start: number;
  /** Null when the window never ends. */
  readonly end: number | null;
}

/** Whether we admit or refuse calls whose ceilings can't be checked because the database is unavailable. */
export type StoreDownPolicy = 'allow' | 'refuse';

/** The window that contains `epochMs`. */
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

/** RFC 3339 time at which the window ends; null when it never does. */
export function windowResetAt({ end }: Window): string | null {
  return formatTimeOrNull(end);
}
