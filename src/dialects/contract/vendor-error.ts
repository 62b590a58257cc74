/** Reads a vendor's error body, in the forms of all vendors (docs/vendors.md). Pure. */
import { contextOverflowCode, type ErrorDetails, type VendorReport } from '../../core/errors.ts';
import { asArray, asObject, asString, isObject, type JsonObject, parseJson } from '../../core/json/narrow.ts';
import { isContextOverflow, parseExceededWindow } from './context-overflow.ts';

/** What the body says; null where it says nothing. The values are the vendor's, unbounded, and may repeat a secret. */
export interface VendorErrorBody extends VendorReport {
  readonly message: string | null;
}

/**
 * Supports errors of OpenAI and Anthropic (`error`), of Google (`status`, `details`; its chat endpoint wraps the error in a list), of vLLM and
 * Mistral (members of the body itself), of FastAPI and ElevenLabs (`detail`), and a bare `error`, `message` or `detail` text.
 */
export function parseVendorError(bytes: Buffer): VendorErrorBody {
  const parsed = parseJson(bytes.toString('utf8'));
  return readVendorError(asObject(Array.isArray(parsed) ? parsed[0] : parsed));
}

/** The same of a parsed body, or of the data of an error event. */
export function readVendorError(body: JsonObject): VendorErrorBody {
  const error = [body.error, body.detail, asArray(body.errors)[0]].find(isObject) ?? body;
  const issue = asObject(asArray(body.detail)[0]);
  const message = asString(error.message) ?? asString(body.error) ?? asString(body.message) ?? asString(body.detail) ?? asString(issue.msg);
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

/** A code; null for the HTTP status, which some vendors repeat as a number or as text. */
function asCode(value: unknown): string | null {
  const code = typeof value === 'number' ? String(value) : asText(value);
  return code === null || /^[45]\d\d$/.test(code) ? null : code;
}

/** Text with content. Python services write `None` for null, problem details `about:blank` for no type. */
function asText(value: unknown): string | null {
  const text = asString(value);
  return text === '' || text === 'None' || text === 'about:blank' ? null : text;
}

/** Anthropic's `details`. Google's are a list. */
function readDetails({ details }: JsonObject): ErrorDetails | null {
  const { error_code: errorCode, unsupported } = asObject(details);
  if (typeof errorCode !== 'string') return null;
  return {
    error_code: errorCode,
    ...(Array.isArray(unsupported) && { unsupported: unsupported.filter((name) => typeof name === 'string') }),
  };
}

/** Google's `details`: the first that has the member. */
function findDetail({ details }: JsonObject, key: string): string | null {
  return asText(
    asArray(details)
      .map((detail) => asObject(detail)[key])
      .find((value) => typeof value === 'string'),
  );
}

/** Google's `BadRequest` detail names the field that is wrong. */
function findField({ details }: JsonObject): string | null {
  const [violation] = asArray(details).flatMap((detail) => asArray(asObject(detail).fieldViolations));
  return asText(asObject(violation).field);
}

/** FastAPI's location of an issue: `["body", "messages", 0]`. */
function toPath(location: unknown): string | null {
  const path = asArray(location).filter((part) => part !== 'body' && (typeof part === 'string' || typeof part === 'number'));
  return path.length === 0 ? null : path.join('.');
}
