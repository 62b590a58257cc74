/** Parses the gateway's own request headers (docs/api/reference.md#request-headers). Their values are UTF-8. */
import { isUtf8 } from 'node:buffer';
import type { IncomingHttpHeaders } from 'node:http';
import { type CacheDirectives, type Correlation, type MemoryOptions, memoryApplication, playgroundApplication } from '../core/call.ts';
import { gatewayError } from '../core/errors.ts';
import { toPostgresText } from '../core/postgres-text.ts';
import { isSubject } from '../core/subject.ts';

export const subjectHeader = 'x-gateway-memory-subject';
const maxTimeoutMs = 120_000;
const contentTimeoutHeader = 'x-gateway-first-content-timeout-ms';
const maxContentTimeoutMs = 3_600_000;
const maxSourceCodePoints = 256;
const forwardedNames = ['anthropic-version', 'anthropic-beta', 'openai-beta', 'idempotency-key'] as const;

/** Returns null if the header is absent or empty. Invalid UTF-8 becomes U+FFFD. */
export function parseTextHeader(headers: IncomingHttpHeaders, name: string): string | null {
  const value = headers[name];
  if (typeof value !== 'string' || value === '') return null;
  // Node decodes headers as Latin-1, so we have to decode values with non-ASCII characters again.
  return hasOnlyAscii(value) ? value : Buffer.from(value, 'latin1').toString('utf8');
}

/**
 * Returns the application in `x-gateway-source`, or null if the header is missing or empty. We truncate it to 256 code
 * points, as in the database, so that ceilings and counts use the same name. We ignore the names of the gateway's own
 * applications, because most statistics exclude those. A caller could otherwise use them to hide its calls, or to use
 * up their ceilings.
 */
export function parseSource(headers: IncomingHttpHeaders): string | null {
  const name = parseTextHeader(headers, 'x-gateway-source');
  if (name === null || name === memoryApplication || name === playgroundApplication) return null;
  return toPostgresText(name, maxSourceCodePoints);
}

/** Parses `x-gateway-timeout-ms`, with a maximum of 120,000. Returns null if it's missing or not a positive integer. */
export function parseTimeoutMs(headers: IncomingHttpHeaders): number | null {
  const value = headers['x-gateway-timeout-ms'];
  if (typeof value !== 'string' || !/^\d+$/.test(value)) return null;
  const timeoutMs = Number(value);
  return timeoutMs > 0 ? Math.min(timeoutMs, maxTimeoutMs) : null;
}

/**
 * Parses `x-gateway-first-content-timeout-ms`. Returns null if it's missing or empty. Throws `bad_request` if it's
 * invalid.
 */
export function parseFirstContentTimeoutMs(headers: IncomingHttpHeaders): number | null {
  const value = headers[contentTimeoutHeader];
  if (value === undefined || value === '') return null;
  const timeoutMs = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : 0;
  if (timeoutMs >= 1 && timeoutMs <= maxContentTimeoutMs) return timeoutMs;
  throw gatewayError('bad_request', { message: `${contentTimeoutHeader} must be an integer from 1 to ${maxContentTimeoutMs}` });
}

/** Parses `x-gateway-error-codes`. Returns null if the header is missing or invalid. */
export function parseErrorCodes(headers: IncomingHttpHeaders): 'gateway' | 'vendor' | null {
  const value = headers['x-gateway-error-codes'];
  return value === 'gateway' || value === 'vendor' ? value : null;
}

/**
 * Parses `x-gateway-memory`. If the header is missing or empty, the mode is `write`, but `explicitWrite` is false.
 * Throws `invalid_memory_mode`.
 */
export function parseMemoryMode(headers: IncomingHttpHeaders): Pick<MemoryOptions, 'mode' | 'explicitWrite'> {
  const value = headers['x-gateway-memory'];
  if (value === undefined || value === '') return { mode: 'write', explicitWrite: false };
  const mode = typeof value === 'string' ? value.toLowerCase() : '';
  if (mode !== 'write' && mode !== 'recall' && mode !== 'off') throw gatewayError('invalid_memory_mode');
  return { mode, explicitWrite: mode === 'write' };
}

/**
 * Returns the end user from the header, or from the body if there's no header. Returns null if the value is missing or
 * invalid. Calls have a subject even if memory is turned off for them, so that an erasure can find their prompts.
 */
export function parseSubject(headers: IncomingHttpHeaders, bodyUser: string | null): string | null {
  const value = headers[subjectHeader];
  if (value === undefined || value === '') return bodyUser !== null && isSubject(bodyUser) ? bodyUser : null;
  const bytes = Buffer.from(typeof value === 'string' ? value : '', 'latin1');
  const subject = bytes.toString('utf8');
  return isUtf8(bytes) && isSubject(subject) ? subject : null;
}

/**
 * Returns true if the request has a non-empty subject header. If `parseSubject` returns null for such a request, the
 * header is invalid.
 */
export function hasSubjectHeader(headers: IncomingHttpHeaders): boolean {
  return (headers[subjectHeader] ?? '') !== '';
}

/**
 * Parses `cache-control` (RFC 9111 5.2.1). With `no-cache` we don't read from the response cache, with `no-store` we
 * don't write to it either, and `max-age` limits the age of a cached response. We ignore all other directives.
 */
export function parseCacheControl(headers: IncomingHttpHeaders): CacheDirectives {
  const value = headers['cache-control'];
  if (value === undefined) return { reads: true, writes: true };
  const directives = value.split(',').map((directive) => directive.trim().toLowerCase());
  const writes = !directives.includes('no-store');
  const maxAge = directives
    .map((directive) => /^max-age\s*=\s*"?(\d{1,9})"?$/.exec(directive)?.[1])
    .find((seconds) => seconds !== undefined);
  return {
    reads: writes && !directives.includes('no-cache'),
    writes,
    ...(maxAge !== undefined && { maxAgeMs: Number(maxAge) * 1_000 }),
  };
}

export function parseCorrelation(headers: IncomingHttpHeaders): Correlation {
  return {
    taskId: parseTextHeader(headers, 'x-gateway-task-id'),
    turnId: parseTextHeader(headers, 'x-gateway-turn-id'),
    agentId: parseTextHeader(headers, 'x-gateway-agent-id'),
    triggerKind: parseTextHeader(headers, 'x-gateway-trigger-kind'),
    triggerDetail: parseTextHeader(headers, 'x-gateway-trigger-detail'),
    iteration: parseIntegerHeader(headers, 'x-gateway-iteration'),
    distilSaved: parseIntegerHeader(headers, 'x-gateway-distil-saved'),
  };
}

function parseIntegerHeader(headers: IncomingHttpHeaders, name: string): number | null {
  const value = headers[name];
  if (typeof value !== 'string' || !/^[+-]?\d+$/.test(value)) return null;
  const integer = Number(value);
  return Number.isSafeInteger(integer) ? integer : null;
}

/** The allowlist of headers that we forward to vendors. Any others could contain credentials or internal data. */
export function pickForwardedHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const forwarded: Record<string, string> = {};
  for (const name of forwardedNames) {
    const value = headers[name];
    if (typeof value === 'string') forwarded[name] = value;
  }
  return forwarded;
}

function hasOnlyAscii(text: string): boolean {
  for (let position = 0; position < text.length; position += 1) if (text.charCodeAt(position) > 0x7f) return false;
  return true;
}
