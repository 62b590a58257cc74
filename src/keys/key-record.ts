/** A virtual key without its secret, and its JSON on the provisioning routes. */
import { toUsd } from '../core/cost.ts';
import { formatTime, formatTimeOrNull } from '../core/time.ts';
import type { Ceiling, CeilingName, StoreDownPolicy, WindowKind } from '../core/windows.ts';

export type Ceilings = Readonly<Record<CeilingName, Ceiling>>;

export interface KeyRecord {
  readonly id: string;
  /**
   * If the key was created by rotation, this is the id of the first key in the chain. All keys of a chain share the
   * usage of their ceilings.
   */
  readonly quotaKeyId: string;
  readonly projectId: string;
  readonly prefix: string;
  readonly name: string;
  /** The models and tiers that the key may use. Null if all are allowed. */
  readonly models: readonly string[] | null;
  /** Only providers with all of these tags, and with those that the project requires, get calls of the key. */
  readonly requiredTags: readonly string[];
  readonly ceilings: Ceilings;
  readonly expiresAt: number | null;
  /** What happens to calls whose ceilings can't be checked. If this is null, the project's policy applies. */
  readonly onBudgetStoreDown: StoreDownPolicy | null;
  /** Output limit that we send to the vendor for calls that don't set one. Null if the key has no default. */
  readonly defaultMaxOutputTokens: number | null;
  readonly revokedAt: number | null;
  readonly createdAt: number;
}

/** The windows of ceilings that don't specify one. */
export const defaultWindows: Readonly<Record<CeilingName, WindowKind>> = { calls: 'month', cost: 'month', rpm: 'minute', tpm: 'minute' };

export const noCeilings: Ceilings = ceilingsFrom((name) => ({ limit: null, window: defaultWindows[name] }));

export function ceilingsFrom(create: (name: CeilingName) => Ceilings[CeilingName]): Ceilings {
  return { calls: create('calls'), cost: create('cost'), rpm: create('rpm'), tpm: create('tpm') };
}

/** Returns the settings of the key in the format of the request that issues one. */
export function toKeyInputJson(record: KeyRecord): Record<string, unknown> {
  const { prefix: _prefix, created_at: _created, revoked_at: _revoked, ...settings } = toKeyJson(record);
  // The request may only name the windows of ceilings that have a limit.
  const limited = (['calls', 'cost'] as const).filter((name) => record.ceilings[name].limit !== null);
  return { ...settings, windows: Object.fromEntries(limited.map((name) => [name, record.ceilings[name].window])) };
}

/** Converts the record to the `key` object of the API. */
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
