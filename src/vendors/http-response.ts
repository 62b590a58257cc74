/** Reads the responses of vendors: headers, JSON bodies and error responses. */
import { VendorError } from '../core/errors.ts';
import { isObject, type JsonObject, parseJson } from '../core/json/narrow.ts';
import type { HttpResponse } from './http-client.ts';
import { readBody } from './http-client.ts';
import { parseRetryAfter } from './retry-after.ts';

/** Returns the first value of a header; null when it is absent. */
export function getHeader(response: HttpResponse, name: string): string | null {
  const value = response.headers[name];
  return typeof value === 'string' ? value : (value?.[0] ?? null);
}

export function isSuccess({ status }: HttpResponse): boolean {
  return status >= 200 && status <= 299;
}

/** Reads a JSON object. Throws VendorError `unreadable` for anything else, and the errors of `readBody`. */
export async function readJsonObject({ body, status }: HttpResponse, maxBytes: number): Promise<JsonObject> {
  const json = parseJson((await readBody(body, maxBytes)).toString('utf8'));
  if (!isObject(json)) throw new VendorError('unreadable', 'the response is not a JSON object', { status });
  return json;
}

/** Returns the error of an unsuccessful response. `errorText` is the vendor's message without secrets; `now` is for a retry hint that is a date. */
export function toStatusError(response: HttpResponse, body: Buffer, errorText: string | null, now: number): VendorError {
  const { status } = response;
  const retryAfterMs = status === 429 ? parseRetryAfter(response.headers, body, now) : undefined;
  const message = `the vendor responded with ${status}${errorText === null || errorText === '' ? '' : `: ${errorText}`}`;
  return new VendorError('status', message, { status, vendorMessage: errorText, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
}
