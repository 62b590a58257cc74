/**
 * The one table of gateway error codes (specification 7.4) and the two error classes.
 *
 * Anything thrown at a caller is made by `gatewayError`; anything a vendor did wrong is a `VendorError`, which `pipeline/attempt.ts`
 * turns into a gateway error. Rendering happens in `http/error-handler.ts` alone.
 */

interface ErrorSpec {
  readonly status: number;
  /** Sentence for the caller when the place that throws has nothing more exact to say. */
  readonly message: string;
  /** Seconds for `retry-after`; absent: the header is not sent. */
  readonly retryAfterSeconds?: number;
}

const errorSpecs = {
  missing_key: { status: 401, message: 'a virtual key is required: Authorization: Bearer <VIRTUAL_KEY>' },
  invalid_key: { status: 401, message: 'the virtual key is not valid, revoked or expired' },
  keystore_unavailable: { status: 503, message: 'the key store cannot be read' },
  limits_unavailable: { status: 503, message: "the key's limits cannot be read" },
  no_db: { status: 503, message: 'the gateway has no database' },
  bad_json: { status: 400, message: 'the body is not a valid chat request' },
  unsupported_media_type: { status: 415, message: 'content type must be application/json' },
  missing_model: { status: 400, message: 'model is required' },
  bad_model: { status: 400, message: 'model has a character that is not allowed' },
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
  /** The status is the first vendor's; 400 stands here only because a row needs one. */
  upstream_refused: { status: 400, message: 'every model refused the request' },
  upstream_error: { status: 502, message: 'the vendor answered with an error' },
  bad_upstream_response: { status: 502, message: "the vendor's answer cannot be read" },
  video_failed: { status: 502, message: 'the vendor reports that the video failed' },
  bad_shape: { status: 500, message: 'the provider configuration names an unknown answer shape' },
  tenant_capped: { status: 429, message: 'key budget exceeded', retryAfterSeconds: 60 },
  source_capped: { status: 429, message: 'source budget exceeded', retryAfterSeconds: 60 },
  credits_exhausted: { status: 429, message: 'the monthly cap of the project is reached', retryAfterSeconds: 3600 },
  subscription_required: { status: 402, message: 'the project may not send calls' },
  budget_unavailable: { status: 503, message: 'calls cannot be recorded at the moment', retryAfterSeconds: 5 },
  guardrail_blocked: { status: 403, message: 'a content rule blocked the request' },
  bad_request: { status: 400, message: 'the request is not valid' },
  forbidden: { status: 403, message: 'a virtual key may not do this' },
  not_found: { status: 404, message: 'not found' },
  memory_off: { status: 409, message: 'memory is off for the project' },
  query_failed: { status: 500, message: 'the database query failed' },
  /** Not in the specification's table: provisioning routes (shapes 19) and faults of ours on other routes (shapes 21). */
  conflict: { status: 409, message: 'it exists already' },
  internal_error: { status: 500, message: 'internal error' },
} as const satisfies Record<string, ErrorSpec>;

export type ErrorCode = keyof typeof errorSpecs;

/** Row of a code: its status, default sentence and `retry-after`. */
export function errorSpec(code: ErrorCode): ErrorSpec {
  return errorSpecs[code];
}

/** An error with a code of the table. `message` is public: it goes to the caller as it stands. */
export class GatewayError extends Error {
  readonly code: ErrorCode;
  readonly status: number;

  constructor(code: ErrorCode, message: string, status: number, cause: unknown) {
    super(message, { cause });
    this.name = 'GatewayError';
    this.code = code;
    this.status = status;
  }
}

/** Makes an error of the table. `status` overrides the row's (only `upstream_refused` and `upstream_failed` need that). */
export function gatewayError(code: ErrorCode, options: { message?: string; status?: number; cause?: unknown } = {}): GatewayError {
  const row = errorSpecs[code];
  return new GatewayError(code, options.message ?? row.message, options.status ?? row.status, options.cause);
}

/** What went wrong between the gateway and a vendor. */
export type VendorErrorKind =
  | 'connect' // no connection: refused, reset, DNS, TLS, connect timeout
  | 'timeout' // connected, but the first byte did not come in time
  | 'status' // the vendor answered with an error status
  | 'unreadable' // the answer is no answer of its dialect
  | 'broken' // the answer stopped in the middle
  | 'stopped' // the service ends: whether the vendor answers, and bills, nobody will know
  | 'aborted'; // we stopped: the caller left or its deadline passed

/** A vendor's failure. `message` may hold the vendor's words (cut), never a header or a key. */
export class VendorError extends Error {
  readonly kind: VendorErrorKind;
  /** Vendor's status, null when none came. */
  readonly status: number | null;
  /** Vendor's own error message, if its body had one. */
  readonly vendorMessage: string | null;
  /** Pause the vendor asked for; undefined: it named none; null: no wait helps (spend limit, quota). */
  readonly retryAfterMs: number | null | undefined;

  constructor(
    kind: VendorErrorKind,
    message: string,
    options: { status?: number | null; vendorMessage?: string | null; retryAfterMs?: number | null; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause });
    this.name = 'VendorError';
    this.kind = kind;
    this.status = options.status ?? null;
    this.vendorMessage = options.vendorMessage ?? null;
    this.retryAfterMs = options.retryAfterMs;
  }
}
