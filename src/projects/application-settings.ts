/**
 * Validates and converts the settings of an application. They are stored as the JSON of the API, with all defaults
 * filled in.
 */

import { z } from 'zod';
import type { Tiers } from '../core/call.ts';
import { nanosFromUsd, toUsd } from '../core/cost.ts';
import type { Issue } from '../core/error-messages.ts';
import { parseOrBadRequest } from '../core/parse-or-bad-request.ts';
import { tiers } from './tiers.ts';

export type ApplicationWindow = 'day' | 'month' | 'total';

export interface ApplicationCeiling {
  /** The number of calls, or the cost in nano-dollars. Null means unlimited. */
  readonly limit: number | null;
  readonly window: ApplicationWindow;
}

export interface ApplicationSettings {
  readonly ceilings: { readonly calls: ApplicationCeiling; readonly cost: ApplicationCeiling };
  /** Override tiers of the project that have the same name. */
  readonly tiers: Tiers;
  readonly imageTiers: Tiers;
  readonly speechTiers: Tiers;
  readonly transcriptionTiers: Tiers;
}

/** Settings as they are stored and sent. */
export type StoredApplication = z.output<typeof storedApplication>;

/** Zero is allowed. An application with such a ceiling can only make calls that don't count towards it. */
const calls = z.int().min(0).nullable().describe('most calls per window');
const cost = z.number().min(0).max(9_000_000).nullable().describe('highest cost of the calls per window, in USD');
const window = z.enum(['day', 'month', 'total']).describe('window of the ceiling, by default a month');

const ceilings = { calls, cost };
const windows = { calls: window, cost: window };

/** The body of `PUT …/applications/{source}`. */
export const applicationInput = z
  .strictObject({
    ceilings: z.strictObject(ceilings).partial(),
    windows: z.strictObject(windows).partial(),
    tiers,
    image_tiers: tiers,
    speech_tiers: tiers,
    transcription_tiers: tiers,
  })
  .partial();

/** This schema isn't strict, because a newer version of the gateway may have stored more members. */
const storedApplication = z.object({
  ceilings: z.object(ceilings).default({ calls: null, cost: null }),
  windows: z.object(windows).default({ calls: 'month', cost: 'month' }),
  tiers: tiers.default({}),
  image_tiers: tiers.default({}),
  speech_tiers: tiers.default({}),
  transcription_tiers: tiers.default({}),
});

/** A parsed `PUT`. Omitted members keep their value, but `tiers` are replaced as a whole, as they are for projects. */
export interface ApplicationChange {
  apply(current: StoredApplication): StoredApplication;
}

/**
 * Validates the name and the body of `PUT …/applications/{source}`. Throws `bad_request` with a list of every mistake.
 */
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
 * Returns what is wrong with an application's name. The length is in code points. We can't store U+0000 or lone
 * surrogates, and a header can't contain them anyway.
 */
export function sourceIssues(source: string): readonly Issue[] {
  const fits = source !== '' && source.length <= 2 * maxSourceLength && [...source].length <= maxSourceLength;
  return fits && !/[\0\p{Cs}]/u.test(source) ? [] : [{ path: 'source', message: `must be 1 to ${maxSourceLength} characters` }];
}

/** Parses the settings of a row. Missing members get their defaults. */
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
    tiers: stored.tiers,
    imageTiers: stored.image_tiers,
    speechTiers: stored.speech_tiers,
    transcriptionTiers: stored.transcription_tiers,
  });
}

export function toApplicationSettingsJson(settings: ApplicationSettings): StoredApplication {
  const { calls, cost } = settings.ceilings;
  return parseStoredApplication({
    ceilings: { calls: calls.limit, cost: cost.limit === null ? null : toUsd(cost.limit) },
    windows: { calls: calls.window, cost: cost.window },
    tiers: settings.tiers,
    image_tiers: settings.imageTiers,
    speech_tiers: settings.speechTiers,
    transcription_tiers: settings.transcriptionTiers,
  });
}
