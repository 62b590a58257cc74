import { z } from 'zod';
import { nanosFromUsd, toUsd } from '../core/cost.ts';
import { nameError, nameInput } from '../core/name.ts';
import { parseOrBadRequest } from '../core/parse-or-bad-request.ts';
import { requiredTags } from '../core/tags.ts';
import { isTimeZone } from '../core/time-zone.ts';
import type { StoreDownPolicy } from '../core/windows.ts';
import type { ApplicationSettings } from './application-settings.ts';
import { definedMembers } from './defined-members.ts';
import { storedTierFields, type TierSettings, tierFields, toTierSets, toTierSettings } from './tiers.ts';

export interface ProjectSettings extends TierSettings {
  /** The only providers that the project may use. Null for all providers, and an empty list for none. */
  readonly providers: readonly string[] | null;
  /** Models and providers that we only try after all others. */
  readonly retired: readonly string[];
  /** Only providers with all of these tags get the project's calls. */
  readonly requiredTags: readonly string[];
  /** Turns catalog fill on or off. Null to use the setting in gateway.yaml. */
  readonly catalogFill: boolean | null;
  readonly mayCall: boolean;
  readonly monthlyCapNanos: number | null;
  /** Whether calls are admitted while the database is down. Null to use the setting in gateway.yaml. */
  readonly onBudgetStoreDown: StoreDownPolicy | null;
  readonly cache: { readonly enabled: boolean; readonly ttlMs: number; readonly sampled: boolean };
  /** With `vendor`, errors have the vendor's own code if there is one. */
  readonly errorCodes: 'gateway' | 'vendor';
  /** The IANA name of the time zone for reports, which determines when a day starts. */
  readonly timeZone: string;
  /** The settings that applications override, by the name of the application. */
  readonly applications: ReadonlyMap<string, ApplicationSettings>;
}

/** The settings in the format of the API, in which we also store them, with all defaults filled in. */
export type StoredSettings = z.output<typeof storedSettings>;

const providerName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, 'must be the name of a provider');
const retiredName = z
  .string()
  .max(300)
  .regex(
    /^(?:[A-Za-z0-9][A-Za-z0-9._-]{0,62}|[^/\s\p{Cc}\p{Cs}]+\/[^\s\p{Cc}\p{Cs}]+)$/u,
    nameError('must be a model as <provider>/<model>, or the name of a provider'),
  );
const cache = z.strictObject({
  enabled: z.boolean().describe('whether responses are cached'),
  ttl_seconds: z.int().min(1).max(86_400).describe('how long a response stays in the cache'),
});

const timeZone = z.string().max(64).refine(isTimeZone, 'must be the IANA name of a time zone, for example Europe/Berlin');

const fields = {
  providers: z.array(providerName).max(200).nullable().describe('providers that the project may use; null allows every provider'),
  ...tierFields,
  retired: z.array(retiredName).max(1_000).describe('models and providers that are only called after all others'),
  required_tags: requiredTags.describe('the project only uses providers that have all of these tags'),
  catalog_fill: z
    .boolean()
    .nullable()
    .describe('whether to substitute other models from the catalog; null uses the value of the configuration file'),
  may_call: z.boolean().describe('whether the project may make calls'),
  monthly_cap: z.number().min(0).max(9_000_000).nullable().describe('the most that the project may spend in a calendar month, in USD'),
  on_budget_store_down: z
    .enum(['allow', 'refuse'])
    .nullable()
    .describe(
      'whether to allow calls whose ceilings cannot be checked because the database is unavailable; null uses the value of the configuration file',
    ),
  cache_sampled: z.boolean().describe('whether the response cache also answers calls with a temperature above 0 or with n above 1'),
  error_codes: z
    .enum(['gateway', 'vendor'])
    .describe(
      "with vendor, the `code` of an error is the vendor's code if there is one, and `type` stays the gateway's; if the prompt is too long, the message also says so in the words of OpenAI or Anthropic",
    ),
  time_zone: timeZone.describe('IANA name of the time zone in which the console splits days'),
};

export const projectInput = z.strictObject({ ...fields, name: nameInput, cache: cache.partial() }).partial();

const storedSettings = z.object({
  providers: fields.providers.default(null),
  ...storedTierFields,
  // Don't validate the names, because older versions accepted more of them.
  retired: z.array(z.string()).default([]),
  required_tags: fields.required_tags.default([]),
  catalog_fill: fields.catalog_fill.default(null),
  may_call: fields.may_call.default(true),
  monthly_cap: fields.monthly_cap.default(null),
  on_budget_store_down: fields.on_budget_store_down.default(null),
  cache: cache.default({ enabled: true, ttl_seconds: 600 }),
  // This should be part of `cache`. But during an upgrade, processes of the older version are still running, and they
  // reject unknown fields in there.
  cache_sampled: fields.cache_sampled.default(false),
  error_codes: fields.error_codes.default('gateway'),
  // Don't validate the name, because processes with newer time zone data may know more names than we do.
  time_zone: z.string().default('UTC'),
});

/** If the change is invalid, throws a `bad_request` that lists all problems. */
export function parseProjectChange(slug: string, input: unknown) {
  const isSlug = /^[a-z0-9][a-z0-9-]{0,62}$/.test(slug);
  const slugIssues = isSlug
    ? []
    : [{ path: 'project', message: 'must be 1 to 63 characters (a-z, 0-9 and "-") and must not begin with "-"' }];
  const { name, cache: cacheChange, ...change } = parseOrBadRequest(projectInput, input ?? {}, slugIssues);
  return {
    name,
    /** Returns the new settings. Anything that the request leaves out stays the same. */
    apply: (current: StoredSettings): StoredSettings =>
      storedSettings.parse({ ...current, ...definedMembers(change), cache: { ...current.cache, ...definedMembers(cacheChange) } }),
  };
}

export function parseStoredSettings(row: unknown): StoredSettings {
  return storedSettings.parse(row);
}

export function toProjectSettings(stored: StoredSettings, applications: ReadonlyMap<string, ApplicationSettings>): ProjectSettings {
  return Object.freeze({
    providers: stored.providers,
    ...toTierSettings(stored),
    retired: stored.retired,
    requiredTags: stored.required_tags,
    catalogFill: stored.catalog_fill,
    mayCall: stored.may_call,
    monthlyCapNanos: stored.monthly_cap === null ? null : Number(nanosFromUsd(stored.monthly_cap)),
    onBudgetStoreDown: stored.on_budget_store_down,
    cache: { enabled: stored.cache.enabled, ttlMs: stored.cache.ttl_seconds * 1_000, sampled: stored.cache_sampled },
    errorCodes: stored.error_codes,
    timeZone: isTimeZone(stored.time_zone) ? stored.time_zone : 'UTC',
    applications,
  });
}

/** Formats the settings for the API, without applications, because those have routes of their own. */
export function toSettingsJson(settings: ProjectSettings): StoredSettings {
  return parseStoredSettings({
    providers: settings.providers,
    ...toTierSets(settings),
    retired: settings.retired,
    required_tags: settings.requiredTags,
    catalog_fill: settings.catalogFill,
    may_call: settings.mayCall,
    monthly_cap: settings.monthlyCapNanos === null ? null : toUsd(settings.monthlyCapNanos),
    on_budget_store_down: settings.onBudgetStoreDown,
    cache: { enabled: settings.cache.enabled, ttl_seconds: settings.cache.ttlMs / 1_000 },
    cache_sampled: settings.cache.sampled,
    error_codes: settings.errorCodes,
    time_zone: settings.timeZone,
  });
}
