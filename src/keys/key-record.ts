import { toUsd } from '../core/cost.ts';
import { formatTime, formatTimeOrNull } from '../core/time.ts';
import type { Ceiling, CeilingName, StoreDownPolicy, WindowKind } from '../core/windows.ts';

export type Ceilings = Readonly<Record<CeilingName, Ceiling>>;

export interface KeySettings {
  readonly name: string;
  /** The models and tiers that the key may use. Null if it may use all of them. */
  readonly models: readonly string[] | null;
  /** Tags that providers need for the key's calls, in addition to those that the project requires. */
  readonly requiredTags: readonly string[];
  readonly ceilings: Ceilings;
  readonly expiresAt: number | null;
  /** What to do with calls while we can't check their ceilings. Null for the project's policy. */
  readonly onBudgetStoreDown: StoreDownPolicy | null;
  /** An output limit for calls that don't set one. Null for no limit. */
  readonly defaultMaxOutputTokens: number | null;
}

export interface KeyRecord extends KeySettings {
  readonly id: string;
  /** The id of the first key in a chain of rotations. All keys in the chain count against the same ceilings. */
  readonly quotaKeyId: string;
  readonly projectId: string;
  readonly prefix: string;
  readonly revokedAt: number | null;
  readonly createdAt: number;
}

export const defaultWindows: Readonly<Record<CeilingName, WindowKind>> = { calls: 'month', cost: 'month', rpm: 'minute', tpm: 'minute' };

export const noCeilings: Ceilings = ceilingsFrom((name) => ({ limit: null, window: defaultWindows[name] }));

export function ceilingsFrom(create: (name: CeilingName) => Ceilings[CeilingName]): Ceilings {
  return { calls: create('calls'), cost: create('cost'), rpm: create('rpm'), tpm: create('tpm') };
}

export function toKeyInputJson(record: KeyRecord): Record<string, unknown> {
  const { prefix: _prefix, created_at: _created, revoked_at: _revoked, ...settings } = toKeyJson(record);
  // A request that sets a window without a limit would be rejected, so leave out the windows of ceilings that have no
  // limit.
  const limited = (['calls', 'cost'] as const).filter((name) => record.ceilings[name].limit !== null);
  return { ...settings, windows: Object.fromEntries(limited.map((name) => [name, record.ceilings[name].window])) };
}

export function toKeyJson(record: KeyRecord) {
  const { calls, cost, rpm, tpm } = record.ceilings;
  return {
    prefix: record.prefix,
    name: record.name,
    models: record.models,
    required_tags: record.requiredTags,
    ceilings: { calls: calls.limit, cost: cost.limit === null ? null : toUsd(cost.limit), rpm: rpm.limit, tpm: tpm.limit },
    windows: { calls: calls.window, cost: cost.window },
    on_budget_store_down: record.onBudgetStoreDown,
    default_max_output_tokens: record.defaultMaxOutputTokens,
    expires_at: formatTimeOrNull(record.expiresAt),
    revoked_at: formatTimeOrNull(record.revokedAt),
    created_at: formatTime(record.createdAt),
  };
}
