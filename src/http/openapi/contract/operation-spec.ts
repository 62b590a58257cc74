/** The type of an operation's description, and the error codes that several routes share. */
import type { ErrorCode } from '../../../core/errors.ts';
import type { JsonObject } from '../../../core/json/narrow.ts';
import type { PlainTextStatus } from '../../plain-text-error.ts';
import type { ResponseHeader } from './parameters.ts';

export interface OperationSpec {
  readonly tag: string;
  readonly summary: string;
  /** One or two sentences with what you need to know beyond the summary. */
  readonly details: string;
  /** How callers authenticate. With `messages`, they can send their virtual key in `x-api-key`, too. */
  readonly auth: 'key' | 'messages' | 'admin' | 'none';
  /**
   * If this isn't set, the style depends on `auth`. `either` means that errors have the messages style if the request
   * has an `anthropic-version` header.
   */
  readonly errorStyle?: 'either';
  /** You don't have to list the parameters of the path, apart from ids. */
  readonly parameters?: readonly string[];
  /** `name` refers to a schema. `optional` means that callers can leave out the body. */
  readonly body?: {
    readonly name: string;
    readonly optional?: true;
    readonly mediaType?: 'multipart/form-data' | 'application/x-ndjson';
    /** An example that works with the demo configuration of `npm start`. */
    readonly example?: unknown;
  };
  /** The response for each status. A string is the name of a schema. Anything else is a media type object. */
  readonly responses: Readonly<Record<string, string | JsonObject>>;
  /** The description of the responses. If this is missing, it's the same as the summary. */
  readonly description?: string;
  /** The headers of successful responses. Errors only have those whose names end with `-id`. */
  readonly headers?: readonly ResponseHeader[];
  readonly codes: readonly ErrorCode[];
  readonly plain?: readonly PlainTextStatus[];
}

/** Operations by method and path, e.g. `get /v1/models`. */
export type OperationSpecs = Readonly<Record<string, OperationSpec>>;

export const keyCodes = ['missing_key', 'invalid_key', 'keystore_unavailable', 'limits_unavailable'] as const;
/** The error codes of all routes that call a model. */
export const callCodes = [
  ...keyCodes,
  'no_route',
  'subscription_required',
  'guardrail_blocked',
  'tenant_capped',
  'source_capped',
  'credits_exhausted',
  'upstream_failed',
  'budget_unavailable',
  'internal_error',
] as const;
export const databaseCodes = ['query_failed', 'no_db'] as const;
