/**
 * The reasons for which we refuse a call before it reaches a vendor. The error carries a `Refusal`, which
 * `src/usage/refusals` stores without any text of the call.
 */

/**
 * The refusal reasons, each with the error code that the caller gets. The reasons are stored in the database, so don't
 * rename them.
 */
export const refusalCodes = {
  key_expired: 'invalid_key',
  key_revoked: 'invalid_key',
  calls_off: 'subscription_required',
  key_ceiling: 'tenant_capped',
  application_ceiling: 'source_capped',
  project_cap: 'credits_exhausted',
  /** The database was unavailable, so we couldn't check the call's ceilings. */
  ceilings_unchecked: 'budget_unavailable',
  content_rule: 'guardrail_blocked',
  /** A content rule took too long to match, so we refuse the call. */
  content_rule_unfinished: 'guardrail_blocked',
  model_unknown: 'no_route',
  model_not_permitted: 'no_route',
  model_without_price: 'no_route',
  provider_not_allowed: 'no_route',
  tags_missing: 'no_route',
  /** No model can serve the call, and there's no more specific reason. */
  no_model: 'no_route',
} as const;

export type RefusalReason = keyof typeof refusalCodes;

export const refusalReasons = Object.keys(refusalCodes) as readonly RefusalReason[];

export interface RefusedKey {
  readonly projectId: string;
  readonly keyId: string;
  readonly keyPrefix: string;
}

export interface Refusal {
  readonly reason: RefusalReason;
  /**
   * The rule that made us refuse the call, which is a ceiling such as `calls/day`, the class of a content rule, or the
   * missing tags. Absent if the reason alone says enough.
   */
  readonly rule?: string;
  /** The limit of the ceiling, in calls, tokens or nano-dollars. */
  readonly limit?: number;
  /**
   * The key of the refused call. We only set this if we refused the call because of its key (e.g. because the key has
   * expired), since such a call has no authenticated caller.
   */
  readonly key?: RefusedKey;
}
