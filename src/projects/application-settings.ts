/**
 * Validates and converts the settings of an application. We store them as JSON in the format of the API, with all
 * defaults filled in.
 */

import { z } from 'zod';
import { nanosFromUsd, toUsd } from '../core/cost.ts';
import type { Issue } from '../core/error-messages.ts';
import { parseOrBadRequest } from '../core/parse-or-bad-request.ts';
import { definedMembers } from './defined-members.ts';
import { storedTierFields, type TierSettings, tierFields, toTierSets, toTierSettings } from './tiers.ts';

export type ApplicationWindow = 'day' | 'month' | 'total';

export interface ApplicationCeiling {
  /** A number of calls, or a cost in nano-dollars. Null for no limit. */
  readonly limit: number | null;
  readonly window: ApplicationWindow;
}

/** The tiers override those of the project that have the same name. */
export interface ApplicationSettings extends TierSettings {
  readonly ceilings: { readonly calls: ApplicationCeiling; readonly cost: ApplicationCeiling };
}

export type StoredApplication = z.output<typeof storedApplication>;

/** If this is 0, the application can't make any calls, except those that don't count towards the ceiling. */
const calls = z.int().min(0).nullable().describe('most calls per window');
const cost = z.number().min(0).max(9_000_000).nullable().describe('highest cost of the calls per window, in USD');
const window = z.enum(['day', 'month', 'total']).describe('window of the ceiling, by default a month');

const ceilings = { calls, cost };
const windows = { calls: window, cost: window };

export const applicationInput = z
  .strictObject({
    ceilings: z.strictObject(ceilings).partial(),
    windows: z.strictObject(windows).partial(),
    ...tierFields,
  })
  .partial();

/** Unknown fields are allowed, because a newer version of the gateway may have stored them. */
const storedApplication = z.object({
  ceilings: z.object(ceilings).default({ calls: null, cost: null }),
  windows: z.object(windows).default({ calls: 'month', cost: 'month' }),
  ...storedTierFields,
});

/**
 * Validates the settings of an application, and returns a function that changes the current settings. `tiers` are
 * replaced as a whole, as for projects. Throws a `bad_request` that lists all mistakes.
 */
export function parseApplicationChange(source: string, input: unknown): (current: StoredApplication) => StoredApplication {
  const change = parseOrBadRequest(applicationInput, input ?? {}, sourceIssues(source));
  return (current) =>
    storedApplication.parse({
      ...current,
      ...definedMembers(change),
      ceilings: { ...current.ceilings, ...definedMembers(change.ceilings) },
      windows: { ...current.windows, ...definedMembers(change.windows) },
    });
}

const maxSourceLength = 256;

/**
 * The maximum length is in code points. U+0000 and lone surrogates can't be stored, so we reject them. Headers can't
 * contain them anyway.
 */
export function sourceIssues(source: string): readonly Issue[] {
  const fits = source !== '' && source.length <= 2 * maxSourceLength && [...source].length <= maxSourceLength;
  return fits && !/[\0\p{Cs}]/u.test(source) ? [] : [{ path: 'source', message: `must be 1 to ${maxSourceLength} characters` }];
}

export function parseStoredApplication(row: unknown): StoredApplication {
  return storedApplication.parse(row);
}

export function toApplicationSettings(stored: StoredApplication): ApplicationSettings {
  const limitOfCost = stored.ceilings.cost === null ? null : Number(nanosFromUsd(stored.ceilings.cost));
  return Object.freeze({
    ceilings: {
      calls: { limit: stored.ceilings.calls, window: stored.windows.calls },
      cost: { limit: limitOfCost, window: stored.windows.cost },
    },
    ...toTierSettings(stored),
  });
}

export function toApplicationSettingsJson(settings: ApplicationSettings): StoredApplication {
  const { calls, cost } = settings.ceilings;
  return parseStoredApplication({
    ceilings: { calls: calls.limit, cost: cost.limit === null ? null : toUsd(cost.limit) },
    windows: { calls: calls.window, cost: cost.window },
    ...toTierSets(settings),
  });
}
