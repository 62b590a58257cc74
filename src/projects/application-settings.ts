/**
 * The settings of an application: one validator and one reading of them, whoever changes them. Stored as the JSON of shapes 19, with every
 * default filled in.
 */
import { z } from 'zod';
import { nanosFromUsd, toUsd } from '../core/cost.ts';
import { formatIssues } from '../core/error-messages.ts';
import { gatewayError } from '../core/errors.ts';
import { type Tiers, tiers } from './tiers.ts';

export type ApplicationWindow = 'day' | 'month' | 'total';

export interface ApplicationCeiling {
  /** Calls or nano-dollars; null for no limit. */
  readonly limit: number | null;
  readonly window: ApplicationWindow;
}

export interface ApplicationSettings {
  readonly ceilings: { readonly calls: ApplicationCeiling; readonly cost: ApplicationCeiling };
  /** They go over the project's, by name. */
  readonly tiers: Tiers;
  readonly imageTiers: Tiers;
  readonly speechTiers: Tiers;
}

/** Settings as they are stored and sent. */
export type StoredApplication = z.output<typeof storedApplication>;

/** A ceiling of 0 is allowed: such an application is answered only what costs nothing. */
const calls = z.int().min(0).nullable();
const cost = z.number().min(0).max(9_000_000).nullable().describe('USD');
const window = z.enum(['day', 'month', 'total']);

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
  })
  .partial();

/** A newer server may have stored more than this one knows. */
const storedApplication = z.object({
  ceilings: z.object(ceilings).default({ calls: null, cost: null }),
  windows: z.object(windows).default({ calls: 'month', cost: 'month' }),
  tiers: tiers.default({}),
  image_tiers: tiers.default({}),
  speech_tiers: tiers.default({}),
});

/** What a `PUT` changes: what its body leaves out stays as it is; tiers are replaced together, as a project's are. */
export interface ApplicationChange {
  apply(current: StoredApplication): StoredApplication;
}

/** Reads the body of `PUT …/applications/{source}`; throws `bad_request` naming all that is wrong. */
export function parseApplicationChange(input: unknown): ApplicationChange {
  const parsed = applicationInput.safeParse(input ?? {});
  if (!parsed.success) throw gatewayError('bad_request', { message: formatIssues(parsed.error).join('; ') });
  const change = parsed.data;
  return {
    apply: (current) =>
      storedApplication.parse({
        // JSON has no `undefined`: a member that is there has a value.
        ceilings: { ...current.ceilings, ...change.ceilings },
        windows: { ...current.windows, ...change.windows },
        tiers: change.tiers ?? current.tiers,
        image_tiers: change.image_tiers ?? current.image_tiers,
        speech_tiers: change.speech_tiers ?? current.speech_tiers,
      }),
  };
}

/** Settings of a row; what it lacks gets the defaults. */
export function parseStoredApplication(row: unknown): StoredApplication {
  return storedApplication.parse(row);
}

/** Settings as the rooms use them. */
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
  });
}

/** Settings as they are sent. */
export function toApplicationSettingsJson(settings: ApplicationSettings): StoredApplication {
  const { calls, cost } = settings.ceilings;
  return parseStoredApplication({
    ceilings: { calls: calls.limit, cost: cost.limit === null ? null : toUsd(cost.limit) },
    windows: { calls: calls.window, cost: cost.window },
    tiers: settings.tiers,
    image_tiers: settings.imageTiers,
    speech_tiers: settings.speechTiers,
  });
}
