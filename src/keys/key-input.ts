/** Validates request bodies that issue, change or rotate a key. The error lists all mistakes with their paths. */
import { z } from 'zod';
import { nanosFromUsd } from '../core/cost.ts';
import type { Issue } from '../core/error-messages.ts';
import { gatewayError } from '../core/errors.ts';
import { nameInput } from '../core/name.ts';
import { parseOrBadRequest, parseWithIssues } from '../core/parse-or-bad-request.ts';
import { requiredTags } from '../core/tags.ts';
import type { CeilingName, WindowKind } from '../core/windows.ts';
import { ceilingsFrom, defaultWindows, type KeySettings, noCeilings } from './key-record.ts';

/** Even with a limit of 0, the key can make calls that don't count towards the ceiling. */
const wholeLimit = z.int().min(0).nullable().optional();
const window = z.enum(['day', 'month', 'total']).optional().describe('window of the ceiling, by default a month');

export const keyInput = z.strictObject({
  name: nameInput,
  models: z
    .array(z.string().min(1).max(300))
    .max(1_000)
    .nullable()
    .optional()
    .describe('models and tiers that the key may use; null allows all of them'),
  required_tags: requiredTags
    .optional()
    .describe('the key only uses providers that have all of these tags and those that the project requires'),
  ceilings: z
    .strictObject({
      calls: wholeLimit.describe('most calls per window'),
      cost: z.number().min(0).max(9_000_000).nullable().optional().describe('highest cost of the calls per window, in USD'),
      rpm: wholeLimit.describe('most calls per minute'),
      tpm: wholeLimit.describe('most tokens per minute'),
    })
    .optional(),
  windows: z.strictObject({ calls: window, cost: window }).optional().describe('each window requires the ceiling of the same name'),
  expires_at: z.iso
    .datetime({ offset: true, error: 'must be a time in RFC 3339, for example 2027-01-01T00:00:00Z' })
    .nullable()
    .optional()
    .describe('when the key expires; must be in the future'),
  on_budget_store_down: z
    .enum(['allow', 'refuse'])
    .nullable()
    .optional()
    .describe(
      'whether to allow calls whose ceilings cannot be checked because the database is unavailable; null uses the setting of the project',
    ),
  default_max_output_tokens: z
    .int()
    .min(1)
    .max(2_147_483_647)
    .nullable()
    .optional()
    .describe('output limit for calls that do not set one; with null, the gateway does not send a limit to the vendor'),
});

/**
 * JSON Schema for the rule that a window can only be set for a ceiling with a limit. `parseKeyInput` checks this as
 * well, but the schema makes it part of the OpenAPI document.
 */
export const windowsNeedCeilings = (['calls', 'cost'] as const).map((name) => ({
  if: { required: ['windows'], properties: { windows: { required: [name] } } },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: { required: ['ceilings'], properties: { ceilings: { required: [name], properties: { [name]: { type: 'number' } } } } },
}));

export const rotateInput = z.strictObject({
  grace_seconds: z.int().min(0).max(31_536_000).optional().describe('how long the old key stays valid'),
});

export const keyChangeInput = keyInput.partial();

const defaults: KeySettings = {
  ...{
    name: '',
    models: null,
    requiredTags: [],
    ceilings: noCeilings,
    expiresAt: null,
    onBudgetStoreDown: null,
    defaultMaxOutputTokens: null,
  },
};

/** Validates the body of a request that issues a key. Throws `bad_request` with a list of all mistakes. */
export function parseKeyInput(input: unknown, now: number): KeySettings {
  return applyInput(defaults, parseWithIssues(keyInput, input), now);
}

/** Returns a copy of the settings with the changes in `input`. Throws `bad_request` with a list of all mistakes. */
export function applyKeyChange(current: KeySettings, input: unknown, now: number): KeySettings {
  return applyInput(current, parseWithIssues(keyChangeInput, input), now);
}

function applyInput(
  current: KeySettings,
  { data, issues }: { readonly data?: z.output<typeof keyChangeInput> | undefined; readonly issues: Issue[] },
  now: number,
): KeySettings {
  const expiresAt = typeof data?.expires_at === 'string' ? Date.parse(data.expires_at) : null;
  if (expiresAt !== null && expiresAt <= now) issues.push({ path: 'expires_at', message: 'must be in the future' });
  const { cost } = data?.ceilings ?? {};
  const limits: Partial<Record<CeilingName, number | null | undefined>> = {
    ...data?.ceilings,
    cost: typeof cost === 'number' ? Number(nanosFromUsd(cost)) : cost,
  };
  const windows: Partial<Record<CeilingName, WindowKind | undefined>> = data?.windows ?? {};
  const ceilings = ceilingsFrom((name) => {
    const { [name]: limit = current.ceilings[name].limit } = limits;
    const kept = limit === null ? defaultWindows[name] : current.ceilings[name].window;
    return { limit, window: windows[name] ?? kept };
  });
  for (const name of ['calls', 'cost'] as const) {
    if (windows[name] !== undefined && ceilings[name].limit === null)
      issues.push({ path: `windows.${name}`, message: `requires a ceiling named ${name}` });
  }
  if (!data || issues.length > 0) throw gatewayError('bad_request', { issues });
  const { name = current.name, models = current.models } = data;
  const { required_tags: requiredTags = current.requiredTags } = data;
  const { on_budget_store_down: onBudgetStoreDown = current.onBudgetStoreDown } = data;
  const { default_max_output_tokens: defaultMaxOutputTokens = current.defaultMaxOutputTokens } = data;
  return {
    ...{ name, models, requiredTags, ceilings, onBudgetStoreDown, defaultMaxOutputTokens },
    expiresAt: data.expires_at === undefined ? current.expiresAt : expiresAt,
  };
}

/** Returns how many seconds the old key stays valid after a rotation. The default of 0 invalidates it immediately. */
export function parseGraceSeconds(input: unknown): number {
  return parseOrBadRequest(rotateInput, input ?? {}).grace_seconds ?? 0;
}
