import type { ErrorCode } from '../../../core/errors.ts';
import type { JsonObject } from '../../../core/json/narrow.ts';
import type { PlainTextStatus } from '../../plain-text-error.ts';
import type { ResponseHeader } from './parameters.ts';

export interface OperationSpec {
  readonly tag: string;
  readonly summary: string;
  /** One or two sentences that the summary doesn't already say. */
  readonly details: string;
  /** How callers authenticate. `messages` means a virtual key that may also be in `x-api-key`. */
  readonly auth: 'key' | 'messages' | 'admin' | 'none';
  /**
   * `either` means that errors have the messages style if the request has an `anthropic-version` header. If this isn't
   * set, the style follows from `auth`.
   */
  readonly errorStyle?: 'either';
  /** The names of parameters. You don't have to list path parameters, apart from ids. */
  readonly parameters?: readonly string[];
  readonly body?: {
    readonly name: string;
    readonly optional?: true;
    readonly mediaType?: 'multipart/form-data' | 'application/x-ndjson';
    /** An example that works with the demo configuration of `npm start`. */
    readonly example?: unknown;
  };
  /** The response for each status. A string is the name of a schema. Anything else is a media type object. */
  readonly responses: Readonly<Record<string, string | JsonObject>>;
  /** Describes the responses of an operation. Defaults to its summary. */
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
