/** Reads the headers, JSON bodies and errors of vendor responses. */
import { cutText } from '../core/cut-text.ts';
import { VendorError, type VendorReport } from '../core/errors.ts';
import { isObject, type JsonObject } from '../core/json/narrow.ts';
import { parseJson } from '../core/json/parse.ts';
import type { VendorErrorBody } from '../dialects/contract/vendor-error.ts';
import type { HttpResponse } from './response-body.ts';
import { parseRetryAfter } from './retry-after.ts';
import { stripSecretsFromStart } from './strip-secrets.ts';

/** Returns the first value of a header, or null if it's absent. */
export function getHeader(response: HttpResponse, name: string): string | null {
  const value = response.headers[name];
  return typeof value === 'string' ? value : (value?.[0] ?? null);
}

/** Vendors send the id of a request in one of these headers. */
const requestIdHeaders = ['x-request-id', 'request-id', 'x-amzn-requestid', 'apim-request-id', 'x-ms-request-id'] as const;
const requestId = /^[\w.:/+=-]{1,128}$/;

/** Returns the vendor's id for the request. Null if it's missing or malformed. */
export function readRequestId(response: HttpResponse): string | null {
  for (const name of requestIdHeaders) {
    const value = getHeader(response, name);
    if (value !== null && requestId.test(value)) return value;
  }
  return null;
}

/**
 * How much of an error's body we read. Some vendors, e.g. those that use FastAPI, quote the whole request before they
 * say what is wrong with it.
 */
export const maxErrorBytes = 1024 * 1024;

export function isSuccess({ status }: HttpResponse): boolean {
  return status >= 200 && status <= 299;
}

/** Reads a JSON object. Throws the errors of `readAll`, and VendorError `unreadable` if the body is anything else. */
export async function readJsonObject({ body, status }: HttpResponse, maxBytes: number): Promise<JsonObject> {
  const json = parseJson((await body.readAll(maxBytes)).toString('utf8'));
  if (!isObject(json)) throw new VendorError('unreadable', 'the response is not a JSON object', { status });
  return json;
}

/** The statuses for rate limits, outages and overload. We only look for a retry hint in responses with one of these. */
const waitingStatuses: ReadonlySet<number> = new Set([429, 503, 529]);

interface ErrorResponse {
  readonly response: HttpResponse;
  readonly bytes: Buffer;
  readonly body: VendorErrorBody;
  /** The vendor's message after secrets were removed, so it's safe to show to callers. */
  readonly errorText: string | null;
  /**
   * The error's message quotes up to this many characters of `errorText`. Callers get all of it if a call is refused.
   */
  readonly maxExcerptLength?: number;
  readonly secrets: readonly string[];
  /** When the response arrived. Needed to compute the delay if the retry hint is a date. */
  readonly now: number;
}

export function toStatusError({ response, bytes, body, errorText, maxExcerptLength, secrets, now }: ErrorResponse): VendorError {
  const { status } = response;
  const retryAfterMs = waitingStatuses.has(status) ? parseRetryAfter(response.headers, bytes, now) : undefined;
  const excerpt = cutText(errorText ?? '', maxExcerptLength ?? Number.POSITIVE_INFINITY);
  const message = `the vendor responded with ${status}${excerpt === '' ? '' : `: ${excerpt}`}`;
  return new VendorError('status', message, {
    status,
    vendorMessage: errorText,
    detail: readDetail(bytes, body, secrets),
    report: toReport(body, secrets),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

const maxDetailLength = 2_000;

/** Returns the vendor's message for operators, or the beginning of the body if there's no message. */
function readDetail(bytes: Buffer, { message }: VendorErrorBody, secrets: readonly string[]): string | null {
  const text = message ?? toPlainText(bytes.toString('utf8'));
  return stripSecretsFromStart(text, secrets).slice(0, maxDetailLength).trim() || null;
}

/** Proxies in front of vendors often send HTML pages, so we strip the tags. */
export function toPlainText(text: string): string {
  if (!/^\s*</.test(text)) return text;
  const blocks = text.split(/<\/(?:style|script)>/);
  const withoutCode = blocks.map((block, index) => (index === blocks.length - 1 ? block : block.replace(/<(?:style|script)\b.*/s, '')));
  return withoutCode
    .join(' ')
    .replaceAll(/<[^<>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ');
}

const maxNameLength = 128;
const maxNames = 20;

/**
 * Strips the key and limits the length of values, because vendors sometimes repeat the key or send very long values.
 */
export function toReport({ code, type, param, windowTokens, details }: VendorReport, secrets: readonly string[]): VendorReport {
  const boundText = (text: string): string => stripSecretsFromStart(text, secrets).slice(0, maxNameLength);
  const bound = (text: string | null): string | null => (text === null ? null : boundText(text));
  const report = { code: bound(code), type: bound(type), param: bound(param), windowTokens };
  if (!details) return report;
  const unsupported = details.unsupported?.slice(0, maxNames).map(boundText);
  return { ...report, details: { error_code: boundText(details.error_code), ...(unsupported && { unsupported }) } };
}
