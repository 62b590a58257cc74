/** Parses vendors' error bodies in all known formats (docs/vendors.md). */
import { contextOverflowCode, type ErrorDetails, type VendorReport } from '../../core/errors.ts';
import { asArray, asObject, asString, isObject, type JsonObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import { isContextOverflow, parseExceededWindow } from './context-overflow.ts';

/**
 * The contents of a vendor's error body. Fields that the vendor didn't send are null. We haven't checked the texts, so
 * they can have any length, and they may contain a secret because vendors sometimes repeat one.
 */
export interface VendorErrorBody extends VendorReport {
  readonly message: string | null;
}

/**
 * Parses a vendor's error body. We support:
 *
 * - `error`, as sent by OpenAI and Anthropic
 * - `status` and `details`, as sent by Google, whose chat endpoint wraps the error in a list
 * - the same fields at the top level, as sent by vLLM and Mistral
 * - `detail`, as sent by FastAPI and ElevenLabs
 * - a bare string in `error`, `message` or `detail`
 * - `base_resp`, which MiniMax sends with status 200. In successful responses its `status_code` is 0.
 */
export function parseVendorError(bytes: Buffer): VendorErrorBody {
  const parsed = parseJson(bytes.toString('utf8'));
  return readVendorError(asObject(Array.isArray(parsed) ? parsed[0] : parsed));
}

/** Like `parseVendorError`, but for a parsed body or the data of an error event. */
export function readVendorError(body: JsonObject): VendorErrorBody {
  const error = [body.error, body.detail, asArray(body.errors)[0]].find(isObject) ?? body;
  const issue = asObject(asArray(body.detail)[0]);
  const { status_code: ofStatus, status_msg: statusText } = asObject(body.base_resp);
  const texts = [error.message, body.error, body.message, body.detail, issue.msg, ofStatus === 0 ? null : statusText];
  const message = asString(texts.find((text) => typeof text === 'string'));
  const code = asCode(error.code) ?? asText(asObject(error.details).error_code) ?? findDetail(error, 'reason') ?? asText(issue.type);
  const type = asText(error.type) ?? asText(error.status);
  const param = asText(error.param) ?? findField(error) ?? toPath(issue.loc);
  const details = readDetails(error);
  return normalize({ message, code, type, param, ...(details && { details }) });
}

function normalize(error: Omit<VendorErrorBody, 'windowTokens'>): VendorErrorBody {
  if (!isContextOverflow(error)) return { ...error, windowTokens: null };
  return { ...error, code: contextOverflowCode, windowTokens: error.message === null ? null : parseExceededWindow(error.message) };
}

/**
 * Returns an error code. Returns null if the vendor just repeats the HTTP status as a number or a string, because that
 * tells us nothing new.
 */
function asCode(value: unknown): string | null {
  const code = typeof value === 'number' ? String(value) : asText(value);
  return code === null || /^[45]\d\d$/.test(code) ? null : code;
}

/**
 * Returns the text unless it's empty. We treat `None` as missing because Python services write it for null, and
 * `about:blank` because it means that a problem has no type.
 */
function asText(value: unknown): string | null {
  const text = asString(value);
  return text === '' || text === 'None' || text === 'about:blank' ? null : text;
}

/** Reads Anthropic's `details` object. Returns null for the list that Google sends in this field. */
function readDetails({ details }: JsonObject): ErrorDetails | null {
  const { error_code: errorCode, unsupported } = asObject(details);
  if (typeof errorCode !== 'string') return null;
  return {
    error_code: errorCode,
    ...(Array.isArray(unsupported) && { unsupported: unsupported.filter((name) => typeof name === 'string') }),
  };
}

/** Returns the value of `key` in Google's `details`, from the first entry that has one. */
function findDetail({ details }: JsonObject, key: string): string | null {
  return asText(
    asArray(details)
      .map((detail) => asObject(detail)[key])
      .find((value) => typeof value === 'string'),
  );
}

function findField({ details }: JsonObject): string | null {
  const [violation] = asArray(details).flatMap((detail) => asArray(asObject(detail).fieldViolations));
  return asText(asObject(violation).field);
}

/**
 * Converts the location of an issue in FastAPI's format to a path. For example, `["body", "messages", 0]` becomes
 * `messages.0`.
 */
function toPath(location: unknown): string | null {
  const path = asArray(location).filter((part) => part !== 'body' && (typeof part === 'string' || typeof part === 'number'));
  return path.length === 0 ? null : path.join('.');
}
