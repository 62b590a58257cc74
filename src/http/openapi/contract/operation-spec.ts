/** The type that describes an operation, and the error codes that several routes share. */
import type { ErrorCode } from '../../../core/errors.ts';
import type { JsonObject } from '../../../core/json/narrow.ts';
import type { PlainTextStatus } from '../../plain-text-error.ts';
import type { ResponseHeader } from './parameters.ts';

export interface OperationSpec {
  readonly tag: string;
  readonly summary: string;
  /** One or two sentences about what the summary leaves open. */
  readonly details: string;
  /** How callers authenticate. With `messages`, they can send their virtual key in `x-api-key`, too. */
  readonly auth: 'key' | 'messages' | 'admin' | 'none';
  /**
   * By default, the style depends on `auth`. With `either`, errors have the messages style if the request has an
   * `anthropic-version` header.
   */
  readonly errorStyle?: 'either';
  /** The parameters in the path don't have to be listed, except for ids. */
  readonly parameters?: readonly string[];
  /** `name` is the name of the schema. If `optional` is set, the body can be left out. */
  readonly body?: {
    readonly name: string;
    readonly optional?: true;
    readonly mediaType?: 'multipart/form-data' | 'application/x-ndjson';
    /** An example that works with the demo configuration of `npm start`. */
    readonly example?: unknown;
  };
  /** Maps each status to the name of the response schema, or to a media type object. */
  readonly responses: Readonly<Record<string, string | JsonObject>>;
  /** The description of the responses. If this is missing, it's the same as the summary. */
  readonly description?: string;
  /**
   * The headers of successful responses. Error responses only have some of them, namely those whose names end with
   * `-id`.
   */
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
