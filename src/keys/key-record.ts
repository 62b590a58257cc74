/** A virtual key as the gateway knows it, without its secret, and its JSON on the provisioning routes. */
import { toUsd } from '../core/cost.ts';
import { formatTime } from '../core/time.ts';

export const ceilingNames = ['calls', 'cost', 'rpm', 'tpm'] as const;
export type CeilingName = (typeof ceilingNames)[number];
export type WindowKind = 'minute' | 'day' | 'month' | 'total';

export interface Ceiling {
  /** Calls, tokens or nano-dollars; null for no limit. */
  readonly limit: number | null;
  readonly window: WindowKind;
}

export type Ceilings = Readonly<Record<CeilingName, Ceiling>>;

export interface KeyRecord {
  readonly id: string;
  /** Its own id, or that of the first of the keys that it was rotated from: they have their ceilings together. */
  readonly countedAs: string;
  readonly projectId: string;
  readonly prefix: string;
  readonly name: string;
  /** Models and tiers the key may use; null for all. */
  readonly models: readonly string[] | null;
  readonly ceilings: Ceilings;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
  readonly createdAt: number;
}

/** Windows of ceilings that nobody set (shapes 18). */
export const defaultWindows: Readonly<Record<CeilingName, WindowKind>> = { calls: 'month', cost: 'month', rpm: 'minute', tpm: 'minute' };

/** JSON of shapes 19, without the secret. */
export function toKeyJson(record: KeyRecord): Record<string, unknown> {
  const { calls, cost, rpm, tpm } = record.ceilings;
  return {
    prefix: record.prefix,
    name: record.name,
    models: record.models,
    ceilings: { calls: calls.limit, cost: cost.limit === null ? null : toUsd(cost.limit), rpm: rpm.limit, tpm: tpm.limit },
    windows: { calls: calls.window, cost: cost.window },
    expires_at: timeOrNull(record.expiresAt),
    revoked_at: timeOrNull(record.revokedAt),
    created_at: formatTime(record.createdAt),
  };
}

function timeOrNull(epochMs: number | null): string | null {
  return epochMs === null ? null : formatTime(epochMs);
}
