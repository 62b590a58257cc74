/** A virtual key without its secret, and how the provisioning routes show it as JSON. */
import { toUsd } from '../core/cost.ts';
import { formatTime, formatTimeOrNull } from '../core/time.ts';
import type { Ceiling, CeilingName, StoreDownPolicy, WindowKind } from '../core/windows.ts';

export type Ceilings = Readonly<Record<CeilingName, Ceiling>>;

/** What can be changed about a key after it was issued. */
export interface KeySettings {
  readonly name: string;
  /** The models and tiers that the key may use. Null if all are allowed. */
  readonly models: readonly string[] | null;
  /**
   * The key's calls only go to providers that have all of these tags, as well as all tags that the project requires.
   */
  readonly requiredTags: readonly string[];
  readonly ceilings: Ceilings;
  readonly expiresAt: number | null;
  /**
   * Decides what happens to calls while we can't check their ceilings. If this is null, the project's policy applies.
   */
  readonly onBudgetStoreDown: StoreDownPolicy | null;
  /** A limit that we add to calls that don't have an output limit. If this is null, we don't. */
  readonly defaultMaxOutputTokens: number | null;
}

export interface KeyRecord extends KeySettings {
  readonly id: string;
  /**
   * If the key was created by rotation, this is the id of the first key in the chain, or else its own id. All keys in a
   * chain count against the same ceilings.
   */
  readonly quotaKeyId: string;
  readonly projectId: string;
  readonly prefix: string;
  readonly revokedAt: number | null;
  readonly createdAt: number;
}

/** The window of each ceiling, if the request doesn't name one. */
export const defaultWindows: Readonly<Record<CeilingName, WindowKind>> = { calls: 'month', cost: 'month', rpm: 'minute', tpm: 'minute' };

export const noCeilings: Ceilings = ceilingsFrom((name) => ({ limit: null, window: defaultWindows[name] }));

export function ceilingsFrom(create: (name: CeilingName) => Ceilings[CeilingName]): Ceilings {
  return { calls: create('calls'), cost: create('cost'), rpm: create('rpm'), tpm: create('tpm') };
}

/** Returns the key's settings in the format of the request that issues a key. */
export function toKeyInputJson(record: KeyRecord): Record<string, unknown> {
  const { prefix: _prefix, created_at: _created, revoked_at: _revoked, ...settings } = toKeyJson(record);
  // A request may not set the window of a ceiling that has no limit, so leave those out.
  const limited = (['calls', 'cost'] as const).filter((name) => record.ceilings[name].limit !== null);
  return { ...settings, windows: Object.fromEntries(limited.map((name) => [name, record.ceilings[name].window])) };
}

/** Converts a key to the `key` object of the API. */
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
