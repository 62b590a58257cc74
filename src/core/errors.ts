/**
 * The gateway's error codes (docs/api/reference.md#error-codes) and its two error classes.
 *
 * Errors for callers are created by `gatewayError` and only rendered in `http/error-handler.ts`. If a vendor fails, we
 * throw a `VendorError`, which `pipeline/call/chain-error.ts` converts to a gateway error.
 */

import { formatIssues, type Issue } from './error-messages.ts';
import type { Refusal } from './refusal.ts';

interface ErrorSpec {
  readonly status: number;
  readonly message: string;
  readonly retryAfterSeconds?: number;
}

const specs = {
  missing_key: { status: 401, message: 'a virtual key is required: Authorization: Bearer <VIRTUAL_KEY>' },
  invalid_key: { status: 401, message: 'the virtual key is invalid, revoked or expired' },
  keystore_unavailable: { status: 503, message: 'the virtual keys cannot be read at the moment; try again later' },
  limits_unavailable: { status: 503, message: "the key's limits cannot be read at the moment; try again later" },
  no_db: { status: 503, message: 'the gateway has no database' },
  bad_json: { status: 400, message: 'the body is not a valid chat request' },
  unsupported_media_type: { status: 415, message: 'content type must be application/json' },
  missing_model: { status: 400, message: 'model is required' },
  bad_model: { status: 400, message: 'model contains a character that is not allowed' },
  missing_operation: { status: 400, message: 'operation is required' },
  missing_uri: { status: 400, message: 'uri is required' },
  forbidden_target: { status: 400, message: "the address is not on the video vendor's API host" },
  invalid_memory_mode: { status: 400, message: 'x-gateway-memory must be write, recall or off' },
  invalid_memory_subject: {
    status: 400,
    message: 'x-gateway-memory-subject must be 1 to 256 characters without control characters, in UTF-8',
  },
  no_route: { status: 400, message: 'no models available for route' },
  upstream_failed: { status: 502, message: 'every model of the plan failed' },
  /** `upstream_refused` usually takes the status from the first vendor's response instead of this default. */
  upstream_refused: { status: 400, message: 'every model refused the request' },
  upstream_error: { status: 502, message: 'the vendor answered with an error' },
  bad_upstream_response: { status: 502, message: "the vendor's response cannot be read" },
  video_failed: { status: 502, message: 'the vendor reports that the video failed' },
  bad_shape: { status: 500, message: 'the provider is configured with an unknown response format' },
  tenant_capped: { status: 429, message: 'key budget exceeded', retryAfterSeconds: 60 },
  source_capped: { status: 429, message: 'source budget exceeded', retryAfterSeconds: 60 },
  credits_exhausted: { status: 429, message: 'the project has reached its monthly cap', retryAfterSeconds: 3600 },
  subscription_required: {
    status: 402,
    message: 'calls are turned off for this project; an owner can turn them on in the project settings',
  },
  budget_unavailable: { status: 503, message: 'calls cannot be recorded at the moment', retryAfterSeconds: 5 },
  guardrail_blocked: { status: 403, message: 'a content rule blocked the request' },
  bad_request: { status: 400, message: 'the request is not valid' },
  forbidden: { status: 403, message: 'virtual keys are not allowed to do this' },
  not_found: { status: 404, message: 'not found' },
  memory_off: { status: 409, message: 'memory is off for this project; turn it on in the memory settings' },
  query_failed: { status: 500, message: 'the database query failed' },
  /**
   * `conflict` only occurs on provisioning routes. `internal_error` can occur anywhere, because it stands for errors
   * that we didn't expect.
   */
  conflict: { status: 409, message: 'the request conflicts with existing data' },
  internal_error: { status: 500, message: 'internal error' },
} as const satisfies Record<string, ErrorSpec>;

export type ErrorCode = keyof typeof specs;

export const errorSpecs: Readonly<Record<ErrorCode, ErrorSpec>> = specs;

/** Additional fields in an error body, after `message`, `type` and `code` (docs/api/reference.md#errors). */
export interface ErrorMembers {
  /** The request parameter that caused the error, according to the vendor. */
  readonly param?: string;
  readonly upstream_code?: string;
  readonly upstream_type?: string;
  readonly hint?: string;
  /** The vendor's error code, which replaces the gateway's `code` for callers that opted in to this. */
  readonly code?: string;
  readonly details?: ErrorDetails;
}

/**
 * The `details` of an error in Anthropic's format. Anthropic's SDKs look at them to decide whether to resend a
 * conversation (docs/architecture/translation.md#threads).
 */
export interface ErrorDetails {
  readonly error_code: string;
  /** If the request continues a thread, the parts of it that the vendor doesn't support. */
  readonly unsupported?: readonly string[];
}

export interface GatewayErrorOptions {
  readonly message?: string;
  /** Problems with individual input fields. If this is set, the message lists all of them. */
  readonly issues?: readonly Issue[];
  readonly status?: number;
  readonly cause?: unknown;
  readonly retryAfterSeconds?: number | undefined;
  /**
   * Set to false to send `x-should-retry: false`, which tells the official SDKs not to retry. Use this if the error
   * lasts longer than their backoff.
   */
  readonly shouldRetry?: false;
  readonly members?: ErrorMembers;
  /** The refusal that we record when this error is thrown. The caller never sees it. */
  readonly refusal?: Refusal;
}

/**
 * An error with one of the codes above. The caller receives `message` and `members` unchanged.
 *
 * Errors caused by a caller or a vendor have no stack. In our measurements, a failed call spent a tenth of its CPU time
 * capturing the stacks of its two errors, so a project whose calls all failed slowed down other projects.
 */
export class GatewayError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly retryAfterSeconds: number | undefined;
  readonly shouldRetry: false | undefined;
  readonly members: ErrorMembers;
  readonly issues: readonly Issue[];
  readonly refusal: Refusal | undefined;

  constructor(code: ErrorCode, options: GatewayErrorOptions) {
    const row = errorSpecs[code];
    const status = options.status ?? row.status;
    const isExpected = status < 500 || options.cause instanceof VendorError;
    const { stackTraceLimit } = Error;
    if (isExpected) Error.stackTraceLimit = 0;
    const { issues = [] } = options;
    super(options.message ?? (issues.length > 0 ? formatIssues(issues) : row.message), { cause: options.cause });
    Error.stackTraceLimit = stackTraceLimit;
    this.name = 'GatewayError';
    this.code = code;
    this.status = status;
    this.retryAfterSeconds = options.retryAfterSeconds ?? row.retryAfterSeconds;
    this.shouldRetry = options.shouldRetry;
    this.members = options.members ?? {};
    this.issues = issues;
    this.refusal = options.refusal;
  }
}

export function gatewayError(code: ErrorCode, options: GatewayErrorOptions = {}): GatewayError {
  return new GatewayError(code, options);
}

export type VendorErrorKind =
  | 'connect' // no connection: refused, reset, DNS, TLS, connect timeout
  | 'timeout' // connected, but no first byte in time
  | 'status' // the vendor returned an error status
  | 'unreadable' // the response is not valid in its dialect
  | 'broken' // the response ended early
  | 'stopped' // the service is stopping, and we don't know if the vendor responds or bills the call
  | 'aborted'; // the caller disconnected or the deadline passed

/**
 * What the vendor's error response contains besides its message. We truncate it and remove secrets before we pass it on
 * to the caller. Fields that the vendor didn't send are null.
 */
export interface VendorReport {
  /**
   * The vendor's error code. If a prompt is too long, it's always `context_length_exceeded`, because each vendor has a
   * different code for that.
   */
  readonly code: string | null;
  readonly type: string | null;
  readonly param: string | null;
  /**
   * The size of the model's context window in tokens, if the prompt was too long for it. We never send this to the
   * caller.
   */
  readonly windowTokens: number | null;
  readonly details?: ErrorDetails;
}

export const contextOverflowCode = 'context_length_exceeded';

interface VendorErrorOptions {
  readonly status?: number | null;
  readonly vendorMessage?: string | null;
  readonly detail?: string | null;
  readonly report?: VendorReport;
  readonly retryAfterMs?: number | null;
  readonly isUnsent?: boolean;
  readonly closedWhileSending?: boolean;
  readonly isWithoutCredential?: boolean;
  readonly isUntranslatable?: boolean;
  readonly mayBeBilled?: boolean;
  readonly cause?: unknown;
}

const noReport: VendorReport = { code: null, type: null, param: null, windowTokens: null };

/**
 * A failed request to a vendor. It has no stack. `message` can contain a truncated quote of the vendor's error, but
 * never a header or a key.
 */
export class VendorError extends Error {
  readonly kind: VendorErrorKind;
  /** The status of the vendor's response. Null if there was none. */
  readonly status: number | null;
  readonly vendorMessage: string | null;
  /**
   * A more detailed message for operators, without secrets but possibly with a quote of the request. Null if there's
   * nothing to add to `message`.
   */
  readonly detail: string | null;
  readonly report: VendorReport;
  /**
   * How long the vendor asked us to wait before we retry. Undefined if the vendor didn't say, and null if retrying is
   * pointless, e.g. because a spend limit or quota has been reached.
   */
  readonly retryAfterMs: number | null | undefined;
  /** True if the vendor can't have billed the request, because it never received all of it. */
  readonly isUnsent: boolean;
  /**
   * True if a keep-alive connection closed before we had sent the whole request. It's safe to retry on a new
   * connection.
   */
  readonly closedWhileSending: boolean;
  /** True if we couldn't send the request because the provider's cloud identity had no valid credentials. */
  readonly isWithoutCredential: boolean;
  /**
   * True if we didn't call the vendor, because its dialect can't express the request. The error looks as if the vendor
   * had responded with 400.
   */
  readonly isUntranslatable: boolean;
  /** True if the vendor has sent a response that we can't use, but probably bills. */
  readonly mayBeBilled: boolean;

  constructor(kind: VendorErrorKind, message: string, options: VendorErrorOptions = {}) {
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(message, { cause: options.cause });
    Error.stackTraceLimit = stackTraceLimit;
    this.name = 'VendorError';
    this.kind = kind;
    this.status = options.status ?? null;
    this.vendorMessage = options.vendorMessage ?? null;
    this.detail = options.detail ?? null;
    this.report = options.report ?? noReport;
    this.retryAfterMs = options.retryAfterMs;
    this.closedWhileSending = options.closedWhileSending ?? false;
    this.isWithoutCredential = options.isWithoutCredential ?? false;
    this.isUntranslatable = options.isUntranslatable ?? false;
    this.mayBeBilled = options.mayBeBilled ?? false;
    this.isUnsent = options.isUnsent ?? (this.closedWhileSending || this.isWithoutCredential);
  }
}

export function vendorMembers({ report: { code, type, param, details } }: VendorError): ErrorMembers {
  return {
    ...(param !== null && { param }),
    ...(code !== null && { upstream_code: code }),
    ...(type !== null && { upstream_type: type }),
    ...(details && { details }),
  };
}
