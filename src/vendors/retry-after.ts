/**
 * Finds out how long a vendor wants us to wait. Millisecond headers come first, followed by `retry-after`, a hint in
 * the body, and finally reset headers (docs/vendors.md). A time in the past counts as 0.
 */
import { asArray, asObject, asString, isObject } from '../core/json/narrow.ts';
import { parseJson } from '../core/json/parse.ts';

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/**
 * Returns how many milliseconds to wait. Null means that waiting won't help, because a spend limit or quota is used up.
 * Undefined means that the vendor gave no usable hint.
 */
export function parseRetryAfter(headers: Headers, body: Buffer, nowMs: number): number | null | undefined {
  const json = parseJson(body.toString('utf8'));
  // Google's chat endpoint wraps the error in a list.
  const parsed = Array.isArray(json) ? json[0] : json;
  if (isQuotaExhausted(parsed)) return null;
  return (
    parseNumber(headers['retry-after-ms'], 1) ??
    parseNumber(headers['x-ms-retry-after-ms'], 1) ??
    parseNumber(headers['retry-after'], 1000) ??
    parseDate(headers['retry-after'], nowMs) ??
    parseRetryInfo(parsed) ??
    parseResetHeaders(headers, nowMs)
  );
}

/** Recognizes OpenAI's exhausted quota and Anthropic's spend limit. These are 429s, but waiting doesn't help. */
function isQuotaExhausted(body: unknown): boolean {
  const error = asObject(asObject(body).error);
  if (error.code === 'insufficient_quota' || error.type === 'insufficient_quota') return true;
  return asObject(error.details).error_code === 'enforced_spend_limit_reached';
}

function parseNumber(value: string | string[] | undefined, unitMs: number): number | undefined {
  const text = firstValue(value);
  if (text === undefined || !/^\s*-?\d+(\.\d+)?\s*$/.test(text)) return undefined;
  const waitMs = Math.max(0, Math.round(Number(text) * unitMs));
  return Number.isFinite(waitMs) ? waitMs : undefined;
}

/**
 * Parses an HTTP date or an RFC 3339 time. `Date.parse` takes almost any text with a number in it for a date, so we
 * check the format ourselves.
 */
function parseDate(value: string | string[] | undefined, nowMs: number): number | undefined {
  const text = firstValue(value);
  if (text === undefined || !/^(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .*|\d{4}-\d{2}-\d{2}T)\d{2}:\d{2}:\d{2}/.test(text))
    return undefined;
  // The oldest of the three HTTP date formats doesn't mention a time zone, but it's in UTC too (RFC 9110, section
  // 5.6.7).
  const at = Date.parse(/^[A-Z][a-z]{2} .* \d{4}$/.test(text) ? `${text} GMT` : text);
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}

function firstValue(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : value?.[0];
}

/** Parses Google's `google.rpc.RetryInfo`, e.g. `"retryDelay": "37s"`. */
function parseRetryInfo(body: unknown): number | undefined {
  for (const detail of asArray(asObject(asObject(body).error).details)) {
    const delay = isObject(detail) ? asString(detail.retryDelay) : null;
    if (delay !== null) return parseDuration(delay);
  }
  return undefined;
}

/**
 * Parses reset headers, which contain durations (`6m0s`, `120ms`) or RFC 3339 times. Returns the longest wait among the
 * limits that are used up.
 */
function parseResetHeaders(headers: Headers, nowMs: number): number | undefined {
  const waits: number[] = [];
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value !== 'string') continue;
    const remaining = headers[name.replace('reset', 'remaining')];
    if (typeof remaining === 'string' && Number(remaining) > 0) continue;
    const isOpenAi = name.startsWith('x-ratelimit-reset-');
    const isAnthropic = name.startsWith('anthropic-ratelimit-') && name.endsWith('-reset');
    const waitMs = isOpenAi ? parseDuration(value) : isAnthropic ? parseDate(value, nowMs) : undefined;
    if (waitMs !== undefined) waits.push(waitMs);
  }
  return waits.length === 0 ? undefined : Math.max(...waits);
}

const unitsMs: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 };

/** Parses a Go duration. The result is in milliseconds, or undefined if it's invalid. */
function parseDuration(text: string): number | undefined {
  if (!/^(\d+(\.\d+)?(h|ms|m|s))+$/.test(text)) return undefined;
  let total = 0;
  for (const [, amount = '0', unit = 's'] of text.matchAll(/(\d+(?:\.\d+)?)(h|ms|m|s)/g)) total += Number(amount) * (unitsMs[unit] ?? 0);
  return Math.round(total);
}
