/** Windows of ceilings (shapes 18): calendar month, day and minute in UTC, or all time. */
import { formatTime, minuteAt, monthAt } from './time.ts';

/** What a ceiling counts: calls, nano-dollars, calls of a minute, tokens of a minute. */
export type CeilingName = 'calls' | 'cost' | 'rpm' | 'tpm';

export type WindowKind = 'minute' | 'day' | 'month' | 'total';

export interface Window {
  readonly start: number;
  /** Null: it never ends. */
  readonly end: number | null;
}

const dayMs = 86_400_000;

/** The window of `epochMs`. */
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

/** When the window is over, RFC 3339; null for never. */
export function windowResetAt({ end }: Window): string | null {
  return end === null ? null : formatTime(end);
}
