/** Turns the error responses of vendors on the text routes into errors. */
import { isUtf8 } from 'node:buffer';
import { cutText } from '../core/cut-text.ts';
import { contextOverflowCode, VendorError } from '../core/errors.ts';
import { characters } from '../core/json/characters.ts';
import { asObject } from '../core/json/narrow.ts';
import { parseJson } from '../core/json/parse.ts';
import { parseVendorError, type VendorErrorBody } from '../dialects/contract/vendor-error.ts';
import { getHeader, maxErrorBytes, toPlainText, toReport, toStatusError } from './http-response.ts';
import type { HttpResponse } from './response-body.ts';
import { secretsOf, vendorErrorText } from './strip-secrets.ts';
import type { Provider } from './vendor.ts';

const { openBrace } = characters;
/** Callers get this much of the vendor's message if every model refuses. */
const maxVendorMessageLength = 4_096;
/** Error messages only quote this much of it, because some of them are logged. */
const maxExcerptLength = 500;
/** Responses with these statuses contain a message about the provider's key or account, so callers don't see it. */
const accountStatuses: ReadonlySet<number> = new Set([401, 403]);

/** Returns the error for a successful response with JSON that isn't what we asked for. */
export function unusableJson(problem: string, bytes: Buffer, status: number, provider: Provider): VendorError {
  // Some vendors send their errors with status 200.
  const error = bytes.length > maxErrorBytes ? null : parseVendorError(bytes);
  if (error?.code === contextOverflowCode) return overflowError(error, provider);
  const errorText = toExcerpt(toVendorMessage(error?.message ?? null, provider));
  const mayBeBilled = errorText === null && looksGenerated(bytes);
  return new VendorError('unreadable', `${problem}${errorText === null ? '' : `: ${errorText}`}`, { status, mayBeBilled });
}

/** Returns true for JSON objects, unless they are empty or say that something has failed. */
function looksGenerated(bytes: Buffer): boolean {
  // Don't parse large responses. Vendors don't send errors of this size as JSON.
  if (bytes.length > maxErrorBytes) return bytes[0] === openBrace;
  const { error, errors, success, ...others } = asObject(parseJson(bytes.toString('utf8')));
  return Object.keys(others).length > 0 && (error ?? errors ?? null) === null && success !== false;
}

export async function readStatusError(
  response: HttpResponse,
  { provider, now }: { readonly provider: Provider; readonly now: () => number },
): Promise<VendorError> {
  // If we can't read the body, we still know the status.
  const bytes = await response.body.readAll(maxErrorBytes).catch(() => Buffer.alloc(0));
  const body = parseVendorError(bytes);
  const errorText = accountStatuses.has(response.status) ? null : toVendorMessage(body.message ?? plainTextBody(response, bytes), provider);
  return toStatusError({ response, bytes, body, errorText, maxExcerptLength, secrets: secretsOf(provider), now: now() });
}

/**
 * Creates the same error as for a 400. We need this because some vendors respond with 200 before they notice that the
 * prompt is too long.
 */
export function overflowError(body: VendorErrorBody, provider: Provider): VendorError {
  const vendorMessage = toVendorMessage(body.message, provider);
  const message = toExcerpt(vendorMessage) ?? 'the prompt is too long for the model';
  return new VendorError('status', message, { status: 400, vendorMessage, report: toReport(body, secretsOf(provider)) });
}

export function toVendorMessage(text: string | null, provider: Provider): string | null {
  return text === null ? null : vendorErrorText(text, provider, maxVendorMessageLength);
}

export function toExcerpt(vendorMessage: string | null): string | null {
  return vendorMessage === null ? null : cutText(vendorMessage, maxExcerptLength);
}

/** Returns the text of an error that isn't JSON. Proxies in front of vendors often send plain text or HTML. */
function plainTextBody(response: HttpResponse, bytes: Buffer): string | null {
  const isText = /^text\//i.test(getHeader(response, 'content-type') ?? 'text/plain') && isUtf8(bytes);
  return isText ? toPlainText(bytes.toString('utf8')).trim() || null : null;
}
