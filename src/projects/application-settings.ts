/**
 * Validates and converts the settings of an application. They are stored as JSON in the format of the API, including
 * defaults.
 */

import { z } from 'zod';
import { nanosFromUsd, toUsd } from '../core/cost.ts';
import type { Issue } from '../core/error-messages.ts';
import { parseOrBadRequest } from '../core/parse-or-bad-request.ts';
import { storedTierFields, type TierSettings, tierFields, toTierSets, toTierSettings } from './tiers.ts';

export type ApplicationWindow = 'day' | 'month' | 'total';

export interface ApplicationCeiling {
  /** A number of calls, or a cost in nano-dollars. Null means unlimited. */
  readonly limit: number | null;
  readonly window: ApplicationWindow;
}

/** The tiers override the project's tiers with the same names. */
export interface ApplicationSettings extends TierSettings {
  readonly ceilings: { readonly calls: ApplicationCeiling; readonly cost: ApplicationCeiling };
}

/** An application's settings in the format of the API, which we also use in the database. */
export type StoredApplication = z.output<typeof storedApplication>;

/** Zero is allowed. An application with this ceiling can only make calls that don't count towards it. */
const calls = z.int().min(0).nullable().describe('most calls per window');
const cost = z.number().min(0).max(9_000_000).nullable().describe('highest cost of the calls per window, in USD');
const window = z.enum(['day', 'month', 'total']).describe('window of the ceiling, by default a month');

const ceilings = { calls, cost };
const windows = { calls: window, cost: window };

/** Body of `PUT …/applications/{source}`. */
export const applicationInput = z
  .strictObject({
    ceilings: z.strictObject(ceilings).partial(),
    windows: z.strictObject(windows).partial(),
    ...tierFields,
  })
  .partial();

/**
 * The stored settings of an application. The schema accepts unknown fields, because a newer version of the gateway may
 * have stored some.
 */
const storedApplication = z.object({
  ceilings: z.object(ceilings).default({ calls: null, cost: null }),
  windows: z.object(windows).default({ calls: 'month', cost: 'month' }),
  ...storedTierFields,
});

/** A parsed `PUT` request. All settings are optional, but `tiers` are replaced as a whole, as they are for projects. */
export interface ApplicationChange {
  apply(current: StoredApplication): StoredApplication;
}

/** Validates the name and body of `PUT …/applications/{source}`. Throws `bad_request` with a list of all mistakes. */
export function parseApplicationChange(source: string, input: unknown): ApplicationChange {
  const change = parseOrBadRequest(applicationInput, input ?? {}, sourceIssues(source));
  return {
    apply: (current) =>
      storedApplication.parse({
        ceilings: { ...current.ceilings, ...change.ceilings },
        windows: { ...current.windows, ...change.windows },
        tiers: change.tiers ?? current.tiers,
        image_tiers: change.image_tiers ?? current.image_tiers,
        speech_tiers: change.speech_tiers ?? current.speech_tiers,
        transcription_tiers: change.transcription_tiers ?? current.transcription_tiers,
      }),
  };
}

const maxSourceLength = 256;

/**
 * Returns the problems of an application's name. The length is counted in code points. We reject U+0000 and lone
 * surrogates, because we can't store them and no header can contain them.
 */
export function sourceIssues(source: string): readonly Issue[] {
  const fits = source !== '' && source.length <= 2 * maxSourceLength && [...source].length <= maxSourceLength;
  return fits && !/[\0\p{Cs}]/u.test(source) ? [] : [{ path: 'source', message: `must be 1 to ${maxSourceLength} characters` }];
}

/** Parses the settings in a row. Missing settings get their defaults. */
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
