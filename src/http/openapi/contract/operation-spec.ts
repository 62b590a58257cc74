/** Specification of an operation, and the error codes that routes share. */
import type { ErrorCode } from '../../../core/errors.ts';
import type { JsonObject } from '../../../core/json/narrow.ts';
import type { PlainTextStatus } from '../../plain-text-error.ts';
import type { ResponseHeader } from './parameters.ts';

export interface OperationSpec {
  readonly tag: string;
  readonly summary: string;
  /** What a caller needs to know beyond the summary, in a sentence or two. */
  readonly details: string;
  /** `messages`: a virtual key, also in `x-api-key`. */
  readonly auth: 'key' | 'messages' | 'admin' | 'none';
  /** Default: by `auth`. `either`: that of messages when `anthropic-version` is sent. */
  readonly errorStyle?: 'either';
  readonly parameters?: readonly string[];
  /** Name of the request schema; `optional`: the body may be omitted. */
  readonly body?: {
    readonly name: string;
    readonly optional?: true;
    readonly mediaType?: 'multipart/form-data' | 'application/x-ndjson';
    /** A body that `npm start` accepts. */
    readonly example?: unknown;
  };
  /** By status: the name of the response schema, or the content by media type. */
  readonly responses: Readonly<Record<string, string | JsonObject>>;
  /** Description of the responses. Default: the summary. */
  readonly description?: string;
  /** Headers of the responses; those of errors include only ids. */
  readonly headers?: readonly ResponseHeader[];
  readonly codes: readonly ErrorCode[];
  readonly plain?: readonly PlainTextStatus[];
}

/** Operations by method and path, such as `get /v1/models`. */
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
