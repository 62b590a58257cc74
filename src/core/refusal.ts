/**
 * Why the gateway refused a call before it reached a vendor. The error of such a call carries a `Refusal`, from which
 * `src/usage/refusals` records a row. The row has no text of the call.
 */

/** The reasons, with the code of the error that the caller gets. They are stored, so don't rename them. */
export const refusalCodes = {
  key_expired: 'invalid_key',
  key_revoked: 'invalid_key',
  calls_off: 'subscription_required',
  key_ceiling: 'tenant_capped',
  application_ceiling: 'source_capped',
  project_cap: 'credits_exhausted',
  /** We couldn't check the ceilings, because the database was unavailable. */
  ceilings_unchecked: 'budget_unavailable',
  content_rule: 'guardrail_blocked',
  /** A content rule couldn't be evaluated in time. */
  content_rule_unfinished: 'guardrail_blocked',
  model_unknown: 'no_route',
  model_not_permitted: 'no_route',
  model_without_price: 'no_route',
  provider_not_allowed: 'no_route',
  tags_missing: 'no_route',
  /** Any other reason why there's no model for the call. */
  no_model: 'no_route',
} as const;

export type RefusalReason = keyof typeof refusalCodes;

export const refusalReasons = Object.keys(refusalCodes) as readonly RefusalReason[];

/** The virtual key of a refused call. */
export interface RefusedKey {
  readonly projectId: string;
  readonly keyId: string;
  readonly keyPrefix: string;
}

export interface Refusal {
  readonly reason: RefusalReason;
  /**
   * What exactly refused the call: a ceiling with its window, such as `calls/day`, the class of a content rule, or the
   * missing tags. Absent if the reason says everything.
   */
  readonly rule?: string;
  /** The limit of the ceiling, in calls, tokens or nano-dollars. */
  readonly limit?: number;
  /** Only set if the key itself is the reason, because there is no caller then. */
  readonly key?: RefusedKey;
}
