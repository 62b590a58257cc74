/** Parses the gateway's request headers (docs/api/reference.md#request-headers). Values are UTF-8. */
import { isUtf8 } from 'node:buffer';
import type { IncomingHttpHeaders } from 'node:http';
import type { CacheDirectives, Correlation, MemoryOptions } from '../core/call.ts';
import { gatewayError } from '../core/errors.ts';
import { toPostgresText } from '../core/postgres-text.ts';
import { isSubject } from '../core/subject.ts';

const subjectHeader = 'x-gateway-memory-subject';
const maxTimeoutMs = 120_000;
const contentTimeoutHeader = 'x-gateway-first-content-timeout-ms';
const maxContentTimeoutMs = 3_600_000;
const maxSourceCodePoints = 256;
const forwardedNames = ['anthropic-version', 'anthropic-beta', 'openai-beta', 'idempotency-key'] as const;

/** Value of a header as text; invalid UTF-8 becomes U+FFFD. Null when absent or empty. */
export function parseTextHeader(headers: IncomingHttpHeaders, name: string): string | null {
  const value = headers[name];
  if (typeof value !== 'string' || value === '') return null;
  // Node decodes header bytes as Latin-1; ASCII, the common case, is the same in both.
  return hasOnlyAscii(value) ? value : Buffer.from(value, 'latin1').toString('utf8');
}

/**
 * The application that `x-gateway-source` names: at most 256 code points, as it is stored, so that a longer name is admitted under the name
 * under which it is counted. Null when absent or empty.
 */
export function parseSource(headers: IncomingHttpHeaders): string | null {
  const name = parseTextHeader(headers, 'x-gateway-source');
  return name === null ? null : toPostgresText(name, maxSourceCodePoints);
}

/** `x-gateway-timeout-ms`, at most 120,000. Null when absent or not a positive integer. */
export function parseTimeoutMs(headers: IncomingHttpHeaders): number | null {
  const value = headers['x-gateway-timeout-ms'];
  if (typeof value !== 'string' || !/^\d+$/.test(value)) return null;
  const timeoutMs = Number(value);
  return timeoutMs > 0 ? Math.min(timeoutMs, maxTimeoutMs) : null;
}

/** `x-gateway-first-content-timeout-ms`. Null when absent or empty. Throws `bad_request`. */
export function parseFirstContentTimeoutMs(headers: IncomingHttpHeaders): number | null {
  const value = headers[contentTimeoutHeader];
  if (value === undefined || value === '') return null;
  const timeoutMs = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : 0;
  if (timeoutMs >= 1 && timeoutMs <= maxContentTimeoutMs) return timeoutMs;
  throw gatewayError('bad_request', { message: `${contentTimeoutHeader} must be an integer from 1 to ${maxContentTimeoutMs}` });
}

/** `x-gateway-error-codes`. Null when absent or neither `gateway` nor `vendor`. */
export function parseErrorCodes(headers: IncomingHttpHeaders): 'gateway' | 'vendor' | null {
  const value = headers['x-gateway-error-codes'];
  return value === 'gateway' || value === 'vendor' ? value : null;
}

/** `x-gateway-memory`. An empty value acts as `write` not sent explicitly. Throws `invalid_memory_mode`. */
export function parseMemoryMode(headers: IncomingHttpHeaders): Pick<MemoryOptions, 'mode' | 'explicitWrite'> {
  const value = headers['x-gateway-memory'];
  if (value === undefined || value === '') return { mode: 'write', explicitWrite: false };
  const mode = typeof value === 'string' ? value.toLowerCase() : '';
  if (mode !== 'write' && mode !== 'recall' && mode !== 'off') throw gatewayError('invalid_memory_mode');
  return { mode, explicitWrite: mode === 'write' };
}

/**
 * The end user from the header, else from the body. Null when absent or invalid. Calls with `off` keep their subject, so that an erasure finds
 * their prompts.
 */
export function parseSubject(headers: IncomingHttpHeaders, bodyUser: string | null): string | null {
  const value = headers[subjectHeader];
  if (value === undefined || value === '') return bodyUser !== null && isSubject(bodyUser) ? bodyUser : null;
  const bytes = Buffer.from(typeof value === 'string' ? value : '', 'latin1');
  const subject = bytes.toString('utf8');
  return isUtf8(bytes) && isSubject(subject) ? subject : null;
}

/** Whether the header names a subject; when `parseSubject` returns null for it, the header is invalid. */
export function hasSubjectHeader(headers: IncomingHttpHeaders): boolean {
  return (headers[subjectHeader] ?? '') !== '';
}

/**
 * `cache-control`: `no-cache` skips reading the response cache, `no-store` also writing, `max-age` limits the age of what is read (RFC 9111
 * 5.2.1). Other directives are ignored.
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

/** The caller's headers that are forwarded to vendors; all others may carry credentials or internal data. */
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
