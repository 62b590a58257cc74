/**
 * Loads the configuration from the environment and gateway.yaml, and reports all errors at once. `loadConfig` has no
 * side effects and is cheap. A reload can simply try it, and keep the active configuration if it throws.
 */
import { existsSync, readFileSync } from 'node:fs';
import type { Route } from '../core/call.ts';
import { errorMessage } from '../core/error-messages.ts';
import { isObject } from '../core/json/narrow.ts';
import { localProvider } from '../core/local-model.ts';
import { ownValue } from '../core/own-value.ts';
import { describeIssue } from '../core/parse-or-bad-request.ts';
import { dayMs } from '../core/time.ts';
import { checkCanaries } from './canaries.ts';
import { buildCatalogRows, type CatalogOptions } from './catalog.ts';
import { type Config, ConfigError, type ProviderConfig } from './config.ts';
import { demoDefaults, vendorDefaults } from './default-catalog.ts';
import { type FindProxy, noProxy, readProxies } from './egress.ts';
import { type Environment, parseEnvironment, splitTokens } from './environment.ts';
import { type FileValues, fileSchema } from './file-schema.ts';
import { findUsedLocalModels, hasEmbeddingTier, localEmbedderValues } from './local-embedder.ts';
import { buildProviders } from './providers.ts';
import { checkMedia, checkNames } from './reference-checks.ts';
import { noSecretFiles, readSecretFiles, type SecretFiles } from './secret-files.ts';
import { parseSignInSettings } from './sign-in-settings.ts';
import { starterModels } from './starter-models.ts';
import type { Command } from './variables.ts';
import { knownVendors } from './vendors/known-vendors.ts';
import { findWarnings } from './warnings.ts';
import { type AddError, type Path, parseYamlFile, type YamlFile } from './yaml-file.ts';

export interface ConfigSource {
  readonly env: Environment;
  /** The text of gateway.yaml, or null if there is no file. */
  readonly fileText: string | null;
  readonly fileName: string;
  readonly secrets?: SecretFiles;
  /** Decides which settings are required. For example, `serve`, `worker` and `migrate` need a database server. */
  readonly command?: Command;
}

export function loadConfig({ env: variables, secrets = noSecretFiles, fileText, fileName, command }: ConfigSource): Config {
  const env = { ...variables, ...secrets.values };
  /**
   * Returns true if the variable comes from a secret file with an error. The error is already in the list, so the
   * variable isn't reported as missing too.
   */
  const hasBadFile = (name: string): boolean =>
    secrets.errors.length > 0 && Boolean(variables[`${name}_FILE`]?.trim()) && !(name in secrets.values);
  const { settings, errors } = parseEnvironment(env, command, hasBadFile);
  errors.push(...secrets.errors);
  const file = parseYamlFile(fileText ?? '', { fileName, env, hasBadFile }, errors);
  const addError: AddError = (path, sentence) => errors.push(`${file.location(path)}: ${sentence}`);
  const fileValues = parseValues(file, addError);
  const sections = isObject(file.value) ? file.value : {};
  /** After a syntax error, there's no way to tell which settings are missing. */
  const isReadable = !file.hasSyntaxError && isObject(file.value);
  const hasProviders = 'providers' in sections;
  const builtIn = hasProviders ? null : vendorDefaults(env);
  const values = builtIn ? overlay(builtIn, fileValues) : fileValues;
  const demo = builtIn === null && !hasProviders;
  // Include invalid providers. They've already been reported, and a second error for each model that refers to them
  // wouldn't help.
  const providerNames = new Set([
    ...Object.keys(values.providers ?? {}),
    ...Object.keys(isObject(sections.providers) ? sections.providers : {}),
  ]);
  const localModels = findUsedLocalModels(settings.localEmbedder.mode, { tiers: values.tiers ?? {}, providerNames });
  if (settings.localEmbedder.mode !== 'off') providerNames.add(localProvider);
  const canaries = values.canaries ?? {};
  const parts = buildSections(values, { source: 'file', getSourceText: file.getSourceText, addError, findProxy: readProxies(env, errors) });
  // In demo mode there are no providers yet, so references to them can't be checked.
  if (!demo) {
    checkNames(values, (name) => providerNames.has(name), addError);
    checkMedia(parts, addError);
    checkCanaries({ ...parts, canaries }, addError);
  } else if (command === 'serve' && isReadable && !vendorVariables.some(hasBadFile)) {
    errors.push(
      `no providers are configured: add them to ${fileName}, or set ${vendorVariables.join(' or ')}; the demo vendor only runs with gateway start`,
    );
  }
  const adminTokens = settings.adminTokens.length > 0 ? settings.adminTokens : splitTokens(values.admin_token ?? '');
  // Processes that share a database need the same token. If none is configured, each process would create its own token
  // and reject the tokens of the other processes.
  const isTokenNamed = hasBadFile('GATEWAY_ADMIN_TOKEN') || 'admin_token' in sections;
  const sharesDatabase = command === 'serve' || (command === 'start' && settings.server.databaseUrl !== null);
  if (sharesDatabase && isReadable && adminTokens.length === 0 && !isTokenNamed) {
    const subject = command === 'serve' ? 'gateway serve' : 'gateway start with DATABASE_URL';
    errors.push(
      `GATEWAY_ADMIN_TOKEN: is required for ${subject}; use the same token in every process, with at least 16 characters (openssl rand -hex 32)`,
    );
  }
  const signIn = parseSignInSettings({ env, file: values, errors, addError });
  if (errors.length > 0) throw new ConfigError(errors);
  return deepFreeze({
    ...signIn,
    server: settings.server,
    temporal: settings.temporal,
    tracing: settings.tracing,
    adminTokens,
    ...parts,
    canaries,
    corsOrigins: values.cors?.origins ?? [],
    auto: { classifier: values.auto?.classifier ?? 'rules' },
    catalogFill: values.catalog_fill ?? true,
    onBudgetStoreDown: values.on_budget_store_down ?? 'allow',
    errorRetentionMs: (values.error_retention_days ?? 30) * dayMs,
    refusedCallRetentionMs: (values.refused_call_retention_days ?? 30) * dayMs,
    memory: {
      idleMs: Math.round((values.memory?.idle_minutes ?? 10) * 60_000),
      recallDeadlineMs: values.memory?.recall_deadline_ms ?? 800,
      retry: {
        initialMs: Math.round((values.memory?.retry?.first_minutes ?? 1) * 60_000),
        factor: values.memory?.retry?.factor ?? 2,
        maxMs: Math.round((values.memory?.retry?.longest_minutes ?? 360) * 60_000),
      },
    },
    localEmbedder: { models: localModels, folder: settings.localEmbedder.folder },
    journalSync: settings.journalSync,
    demo,
    warnings: demo ? [] : findWarnings({ ...parts, canaries }).map(({ path, message }) => `${file.location(path)}: ${message}`),
  });
}

/**
 * Environment variables for API keys. If the configuration has no providers, each of these that is set adds its vendor.
 */
const vendorVariables = knownVendors.flatMap(({ starter }) => (starter ? [starter.variable] : []));

/**
 * Reads the configuration file and all secret files. The configuration file is the one in `GATEWAY_CONFIG`, or else
 * `gateway.yaml`, which doesn't have to exist. Throws ConfigError if we can't read the configuration file.
 */
export function readConfigSource(env: Environment, command?: Command): ConfigSource {
  const named = env.GATEWAY_CONFIG?.trim() || null;
  const fileName = named ?? 'gateway.yaml';
  const fileText = named === null && !existsSync(fileName) ? null : readConfigFile(fileName);
  return { env, fileName, fileText, secrets: readSecretFiles(env, fileText), ...(command && { command }) };
}

function readConfigFile(fileName: string): string {
  try {
    return readFileSync(fileName, 'utf8');
  } catch (error) {
    throw new ConfigError([`${fileName}: cannot be read: ${errorMessage(error)}`]);
  }
}

/**
 * Returns the configuration with the demo vendor at `demoUrl` as the only vendor. The models and tiers in gateway.yaml
 * are kept.
 */
export function demoConfig(config: Config, demoUrl: string): Config {
  const built = buildSections(demoDefaults(demoUrl), builtInOrigin);
  const { providers, models, tiers, imageTiers, speechTiers, transcriptionTiers, defaults } = built;
  return deepFreeze({
    ...config,
    providers: { ...config.providers, ...providers },
    models: { ...models, ...config.models },
    tiers: { ...tiers, ...config.tiers },
    imageTiers: { ...imageTiers, ...config.imageTiers },
    speechTiers: { ...speechTiers, ...config.speechTiers },
    transcriptionTiers: { ...transcriptionTiers, ...config.transcriptionTiers },
    defaults,
  });
}

/**
 * Adds this service's embedder as a provider, provided that the configuration uses it. If the operator hasn't
 * configured any other embeddings, the `embed` tier uses it too.
 */
export function withLocalEmbedder(config: Config, endpoint: { readonly url: string; readonly token: string } | null): Config {
  const used = config.localEmbedder.models;
  if (used.length === 0 || endpoint === null) return config;
  const { providers, models, tiers } = buildSections(localEmbedderValues(used, endpoint), builtInOrigin);
  const local = Object.fromEntries(Object.entries(providers).map(([name, provider]) => [name, { ...provider, tags: null }]));
  return deepFreeze({
    ...config,
    providers: { ...config.providers, ...local },
    models: { ...models, ...config.models },
    tiers: hasEmbeddingTier(config.tiers) ? config.tiers : { ...config.tiers, ...tiers },
  });
}

/**
 * Validates the values in gateway.yaml. Invalid rows are reported and left out, so that errors in the other rows are
 * found too.
 */
function parseValues(file: YamlFile, addError: AddError): FileValues {
  if (!isObject(file.value)) {
    addError([], 'must be a mapping with keys such as providers');
    return {};
  }
  const parsed = fileSchema.safeParse(file.value, { error: describeIssue });
  if (parsed.success) return parsed.data;
  const invalidPaths: Path[] = [];
  for (const issue of parsed.error.issues) {
    const path = issue.path.map((part) => (typeof part === 'symbol' ? String(part) : part));
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys) addError([...path, key], 'there is no such setting');
      invalidPaths.push(...issue.keys.map((key) => [...path, key]));
    } else {
      addError(path, issue.message);
      invalidPaths.push(path);
    }
  }
  const rest = fileSchema.safeParse(omitRows(file.value, invalidPaths));
  return rest.success ? rest.data : {};
}

/** Removes the rows that contain `paths`. The first two elements of a path are the section and the row. */
function omitRows(values: Readonly<Record<string, unknown>>, paths: readonly Path[]): Record<string, unknown> {
  const omitted = new Map<string, Set<string>>();
  for (const [section, row] of paths) {
    const rows = omitted.get(String(section)) ?? new Set<string>();
    omitted.set(String(section), rows.add(row === undefined ? '' : String(row)));
  }
  return Object.fromEntries(
    Object.entries(values).flatMap(([section, content]) => {
      const rows = omitted.get(section);
      if (!rows) return [[section, content]];
      if (rows.has('') || !isObject(content)) return [];
      return [[section, Object.fromEntries(Object.entries(content).filter(([row]) => !rows.has(row)))]];
    }),
  );
}

type CatalogSections = Pick<Config, 'providers' | 'models' | 'tiers' | 'imageTiers' | 'speechTiers' | 'transcriptionTiers' | 'defaults'>;

interface Origin extends Omit<CatalogOptions, 'findProvider'> {
  readonly findProxy: FindProxy;
}

/** The origin of values that are built into the gateway. It ignores errors, because our tests would find them. */
const builtInOrigin: Origin = { source: 'starter', getSourceText: () => null, addError: () => undefined, findProxy: noProxy };

function buildSections(values: FileValues, origin: Origin): CatalogSections {
  const providers = buildProviders(values.providers ?? {}, origin);
  const { defaults } = values;
  const findProvider = (name: string) => ownValue(providers, name) ?? null;
  const ownRows = buildCatalogRows(values.models ?? {}, { ...origin, findProvider });
  const starterRows = buildCatalogRows(starterModels(providers), { ...builtInOrigin, findProvider });
  return {
    providers,
    // If a caller names a model without the provider, we use the first row that matches. Rows from gateway.yaml come
    // first, in the same order as in the file.
    models: { ...ownRows, ...Object.fromEntries(Object.entries(starterRows).filter(([id]) => !Object.hasOwn(ownRows, id))) },
    tiers: values.tiers ?? {},
    imageTiers: values.image_tiers ?? {},
    speechTiers: values.speech_tiers ?? {},
    transcriptionTiers: values.transcription_tiers ?? {},
    defaults: {
      imageProvider: defaults?.image_provider ?? firstServing(providers, 'images'),
      speechProvider: defaults?.speech_provider ?? firstServing(providers, 'speech'),
      transcriptionProvider: defaults?.transcription_provider ?? firstServing(providers, 'transcriptions'),
      videoProvider: defaults?.video_provider ?? firstServing(providers, 'video'),
      videoModel: defaults?.video_model ?? null,
    },
  };
}

function firstServing(providers: Readonly<Record<string, ProviderConfig>>, served: Route): string | null {
  return Object.values(providers).find((provider) => provider.serves.includes(served))?.name ?? null;
}

/**
 * Combines gateway.yaml with the built-in values. In sections with rows or tiers, each row replaces the built-in one of
 * the same name. Any other section replaces the built-in section as a whole.
 */
function overlay(builtIn: FileValues, fileValues: FileValues): FileValues {
  return {
    ...builtIn,
    ...fileValues,
    models: { ...builtIn.models, ...fileValues.models },
    tiers: { ...builtIn.tiers, ...fileValues.tiers },
    image_tiers: { ...builtIn.image_tiers, ...fileValues.image_tiers },
    speech_tiers: { ...builtIn.speech_tiers, ...fileValues.speech_tiers },
    transcription_tiers: { ...builtIn.transcription_tiers, ...fileValues.transcription_tiers },
  };
}

function deepFreeze<Value extends object>(value: Value): Value {
  for (const part of Object.values(value)) if (typeof part === 'object' && part !== null && !Object.isFrozen(part)) deepFreeze(part);
  return Object.freeze(value);
}
