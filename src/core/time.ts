/** The clock is injected, so that tests can control it. Nothing else in `src` may call `Date.now()`. */

export const minuteMs = 60_000;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

export interface Clock {
  /** Returns the time in milliseconds since 1970. */
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };

/** Formats a time as RFC 3339 in UTC, e.g. `2026-11-20T10:00:00Z`. Milliseconds are left out if they're zero. */
export function formatTime(time: number | Date): string {
  const text = new Date(time).toISOString();
  return text.endsWith('.000Z') ? `${text.slice(0, -5)}Z` : text;
}

export function formatTimeOrNull(time: number | Date | null): string | null {
  return time === null ? null : formatTime(time);
}

/**
 * Returns a function that formats times like `toISOString`. It caches the current second, so formatting takes 0.06
 * instead of 0.5 µs if most times are close together (measured).
 */
export function createTimestampFormat(): (epochMs: number) => string {
  let second = Number.NaN;
  let start = '';
  return (epochMs) => {
    const current = Math.floor(epochMs / 1_000);
    if (current !== second) {
      second = current;
      start = new Date(current * 1_000).toISOString().slice(0, -4);
    }
    return `${start}${String(epochMs - current * 1_000).padStart(3, '0')}Z`;
  };
}

/** Returns the calendar month in UTC that contains `epochMs`. `end` is exclusive. */
export function monthAt(epochMs: number): { name: string; start: number; end: number } {
  const date = new Date(epochMs);
  const start = Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1);
  const end = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1);
  return { name: new Date(start).toISOString().slice(0, 7), start, end };
}

export function minuteAt(epochMs: number): { start: number; end: number } {
  const start = Math.floor(epochMs / 60_000) * 60_000;
  return { start, end: start + 60_000 };
}
