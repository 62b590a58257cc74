/** Reads the message of a vendor's error body, in the forms of all vendors of the text routes (docs/vendors.md). Pure. */
import { asObject, asString, parseJson } from '../../core/json/narrow.ts';

/** Supports `error.message` (OpenAI, Anthropic), a bare `error` string, `message` and `detail`. Null when there is no message. */
export function parseVendorMessage(bytes: Buffer): string | null {
  const body = asObject(parseJson(bytes.toString('utf8')));
  return asString(asObject(body.error).message) ?? asString(body.error) ?? asString(body.message) ?? asString(body.detail);
}
