import type { ErrorCode } from '../../../core/errors.ts';
import type { JsonObject } from '../../../core/json/narrow.ts';
import type { PlainTextStatus } from '../../plain-text-error.ts';
import type { ResponseHeader } from './parameters.ts';

export interface OperationSpec {
  readonly tag: string;
  readonly summary: string;
  /** The description in the OpenAPI document. It should add one or two sentences to the summary. */
  readonly details: string;
  /**
   * How callers authenticate: with a virtual key (`key`), with a virtual key that may also be in `x-api-key`
   * (`messages`), with an admin token, or not at all.
   */
  readonly auth: 'key' | 'messages' | 'admin' | 'none';
  /**
   * Set to `either` if errors have the messages style for requests with an `anthropic-version` header, and the chat
   * style for all others. If this isn't set, the style follows from `auth`.
   */
  readonly errorStyle?: 'either';
  /** The names of the operation's parameters. Path parameters are added automatically, except for ids. */
  readonly parameters?: readonly string[];
  readonly body?: {
    readonly name: string;
    readonly optional?: true;
    readonly mediaType?: 'multipart/form-data' | 'application/x-ndjson';
    /** An example that works with the demo configuration of `npm start`. */
    readonly example?: unknown;
  };
  /**
   * Maps each status to its response. A string is the name of a schema, and an object is a list of media types with
   * their schemas.
   */
  readonly responses: Readonly<Record<string, string | JsonObject>>;
  /** The description of the successful responses. Defaults to `summary`. */
  readonly description?: string;
  /** Headers of successful responses. Error responses only have those that end with `-id`. */
  readonly headers?: readonly ResponseHeader[];
  readonly codes: readonly ErrorCode[];
  readonly plain?: readonly PlainTextStatus[];
}

export type OperationSpecs = Readonly<Record<string, OperationSpec>>;

export const keyCodes = ['missing_key', 'invalid_key', 'keystore_unavailable', 'limits_unavailable'] as const;
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
