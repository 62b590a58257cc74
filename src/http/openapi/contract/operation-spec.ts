/** Specification of an operation, and the error codes that routes share. */
import type { ErrorCode } from '../../../core/errors.ts';
import type { ResponseName } from '../schemas/responses.ts';
import type { PlainTextStatus } from './error-responses.ts';

export interface OperationSpec {
  readonly tag: string;
  readonly summary: string;
  readonly auth: 'key' | 'admin' | 'none';
  readonly parameters?: readonly string[];
  /** Name of the request schema; `optional`: the body may be omitted. */
  readonly body?: { readonly name: string; readonly optional?: true };
  readonly responses: Readonly<Record<string, ResponseName>>;
  readonly codes: readonly ErrorCode[];
  readonly plain?: readonly PlainTextStatus[];
}

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
