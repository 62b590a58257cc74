/** The specification of an operation, and error codes that several routes share. */
import type { ErrorCode } from '../../../core/errors.ts';
import type { JsonObject } from '../../../core/json/narrow.ts';
import type { PlainTextStatus } from '../../plain-text-error.ts';
import type { ResponseHeader } from './parameters.ts';

export interface OperationSpec {
  readonly tag: string;
  readonly summary: string;
  /** What a caller needs to know beyond the summary, in a sentence or two. */
  readonly details: string;
  /** `messages` means a virtual key that may also be sent in `x-api-key`. */
  readonly auth: 'key' | 'messages' | 'admin' | 'none';
  /**
   * By default the style follows from `auth`. With `either`, errors have the messages style if the request has the
   * header `anthropic-version`.
   */
  readonly errorStyle?: 'either';
  readonly parameters?: readonly string[];
  /** The request body. `name` refers to its schema. If `optional` is set, callers may omit the body. */
  readonly body?: {
    readonly name: string;
    readonly optional?: true;
    readonly mediaType?: 'multipart/form-data' | 'application/x-ndjson';
    /** A body that the demo configuration of `npm start` accepts. */
    readonly example?: unknown;
  };
  /** Maps a status to the name of the response schema, or to the content by media type. */
  readonly responses: Readonly<Record<string, string | JsonObject>>;
  /** Describes the responses. Defaults to the summary. */
  readonly description?: string;
  /** Response headers. Error responses only have the ones that end in `-id`. */
  readonly headers?: readonly ResponseHeader[];
  readonly codes: readonly ErrorCode[];
  readonly plain?: readonly PlainTextStatus[];
}

/** Operations by method and path, e.g. `get /v1/models`. */
export type OperationSpecs = Readonly<Record<string, OperationSpec>>;

export const keyCodes = ['missing_key', 'invalid_key', 'keystore_unavailable', 'limits_unavailable'] as const;
/** Error codes of every route that calls a model. */
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
