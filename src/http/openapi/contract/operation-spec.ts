/** What is told of a route that is not of inference, and the codes that routes share. */
import type { ErrorCode } from '../../../core/errors.ts';
import type { ResponseName } from '../schemas/responses.ts';
import type { PlainTextStatus } from './error-responses.ts';

export interface OperationSpec {
  readonly tag: string;
  readonly summary: string;
  readonly auth: 'key' | 'admin' | 'none';
  readonly parameters?: readonly string[];
  /** Name of the schema of the body; `optional`: it may be left out. */
  readonly body?: { readonly name: string; readonly optional?: true };
  readonly responses: Readonly<Record<string, ResponseName>>;
  readonly codes: readonly ErrorCode[];
  readonly plain?: readonly PlainTextStatus[];
}

export const keyCodes = ['missing_key', 'invalid_key', 'keystore_unavailable', 'limits_unavailable'] as const;
/** What a call of a model may be answered with on every route that makes one. */
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
