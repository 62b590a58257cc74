/** Reads the body of "issue a key" and "rotate a key". Every mistake is named, with its place, in one answer. */
import { z } from 'zod';
import { nanosFromUsd } from '../core/cost.ts';
import { formatIssues } from '../core/error-messages.ts';
import { gatewayError } from '../core/errors.ts';
import { type CeilingName, type Ceilings, ceilingNames, defaultWindows } from './key-record.ts';

/** What a new key is given, checked. */
export interface KeySettings {
  readonly name: string;
  readonly models: readonly string[] | null;
  readonly ceilings: Ceilings;
  readonly expiresAt: number | null;
}

/** A ceiling of 0 is allowed: such a key answers only what costs nothing. */
const wholeLimit = z.int().min(0).nullable().optional();
const window = z.enum(['day', 'month', 'total']).optional();

/** The body of "issue a key". */
export const keyInput = z.strictObject({
  name: z.string().trim().min(1).max(200),
  models: z.array(z.string().min(1).max(300)).max(1_000).nullable().optional().describe('models and tiers; null for all'),
  ceilings: z
    .strictObject({
      calls: wholeLimit,
      cost: z.number().min(0).max(9_000_000).nullable().optional().describe('USD'),
      rpm: wholeLimit,
      tpm: wholeLimit,
    })
    .optional(),
  windows: z.strictObject({ calls: window, cost: window }).optional().describe('only beside the ceiling of that name'),
  expires_at: z.iso
    .datetime({ offset: true, error: 'must be a time in RFC 3339, for example 2027-01-01T00:00:00Z' })
    .nullable()
    .optional()
    .describe('a time that is to come'),
});

/** The body of "rotate a key". */
export const rotateInput = z.strictObject({
  grace_seconds: z.int().min(0).max(31_536_000).optional().describe('for which the old key stays valid'),
});

/** The settings in `input`; throws `bad_request` naming all that is wrong. */
export function parseKeyInput(input: unknown, now: number): KeySettings {
  const parsed = keyInput.safeParse(input);
  const problems = parsed.success ? [] : formatIssues(parsed.error);
  const data = parsed.data;
  const expiresAt = typeof data?.expires_at === 'string' ? Date.parse(data.expires_at) : null;
  if (expiresAt !== null && expiresAt <= now) problems.push('expires_at: must be in the future');
  for (const name of ['calls', 'cost'] as const) {
    if (data?.windows?.[name] !== undefined && typeof data.ceilings?.[name] !== 'number')
      problems.push(`windows.${name}: there is no ceiling ${name}`);
  }
  if (!data || problems.length > 0) throw gatewayError('bad_request', { message: problems.join('; ') });
  const limits: Record<CeilingName, number | null> = {
    calls: data.ceilings?.calls ?? null,
    cost: typeof data.ceilings?.cost === 'number' ? Number(nanosFromUsd(data.ceilings.cost)) : null,
    rpm: data.ceilings?.rpm ?? null,
    tpm: data.ceilings?.tpm ?? null,
  };
  return {
    name: data.name,
    models: data.models ?? null,
    ceilings: ceilingsFrom((name) => ({ limit: limits[name], window: { ...defaultWindows, ...definedOnly(data.windows) }[name] })),
    expiresAt,
  };
}

/** Seconds for which the old key stays valid; none given is 0. */
export function parseGraceSeconds(input: unknown): number {
  const parsed = rotateInput.safeParse(input ?? {});
  if (!parsed.success) throw gatewayError('bad_request', { message: formatIssues(parsed.error).join('; ') });
  return parsed.data.grace_seconds ?? 0;
}

/** All four ceilings, each made by `make`. */
export function ceilingsFrom(make: (name: CeilingName) => Ceilings[CeilingName]): Ceilings {
  const [calls, cost, rpm, tpm] = ceilingNames;
  return { calls: make(calls), cost: make(cost), rpm: make(rpm), tpm: make(tpm) };
}

function definedOnly(windows: { calls?: 'day' | 'month' | 'total' | undefined; cost?: 'day' | 'month' | 'total' | undefined } | undefined) {
  return { ...(windows?.calls && { calls: windows.calls }), ...(windows?.cost && { cost: windows.cost }) };
}
