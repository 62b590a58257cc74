/**
 * The configuration and everything that we derive from it, as an immutable value. A reload replaces the whole value.
 */
import { parseImportedRows } from '../config/catalog.ts';
import type { CatalogRow, Config, ProviderConfig } from '../config/config.ts';
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';
import { buildCatalog, toPrice } from '../routing/catalog.ts';
import { memberKey } from '../routing/pools.ts';
import { type ActiveModels, createActiveModels } from '../usage/prices/active-models.ts';
import type { Identities, IdentitySource } from '../vendors/identity/identities.ts';
import { buildMediaProviders } from '../vendors/media.ts';
import { buildProviders } from '../vendors/registry.ts';

export type ConfigSnapshot = Readonly<ReturnType<typeof createSnapshot>>;

interface CurrentConfigOptions {
  readonly config: Config;
  readonly identities: Pick<Identities, 'replace' | 'find'>;
  readonly database: Database;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface CurrentConfig {
  snapshot(): ConfigSnapshot;
  /** The models from the configuration and the imported ones. The caller has to start and stop it. */
  readonly activeModels: ActiveModels<CatalogRow>;
  replace(config: Config): void;
}

/** Holds the current snapshot. It's replaced by `replace` and whenever the imported models change. */
export function createCurrentConfig({ config, identities, database, clock, logger }: CurrentConfigOptions): CurrentConfig {
  let current = createSnapshot(config, identities, 0);
  const activeModels = createActiveModels({
    database,
    clock,
    logger,
    configured: config.models,
    parseRows: (models) => parseImportedRows(models, (name) => current.config.providers[name] ?? null),
    priceOf: toPrice,
    onChange(models) {
      current = { ...current, catalog: buildCatalog({ ...current.config, models }) };
    },
  });
  return {
    snapshot: () => current,
    activeModels,
    replace(next) {
      current = createSnapshot(next, identities, current.revision + 1);
      activeModels.reconfigure(next.models);
    },
  };
}

/** `revision` counts the reloads. We don't serve a response that was cached under another configuration. */
function createSnapshot(config: Config, identities: CurrentConfigOptions['identities'], revision: number) {
  const connections = listConnections(config.providers);
  identities.replace(listIdentities(config.providers));
  return {
    config,
    catalog: buildCatalog(config),
    providers: buildProviders(connections, identities.find),
    mediaProviders: buildMediaProviders(connections, identities.find),
    revision,
  };
}

/** Returns the providers by name, and the members of their pools by key. */
function listConnections(providers: Config['providers']): Record<string, ProviderConfig> {
  const members = Object.values(providers).flatMap(({ name, members: all }) =>
    all.map((each) => [memberKey(name, each.member), each] as const),
  );
  return { ...providers, ...Object.fromEntries(members) };
}

/** Returns the identities that the providers and their members have. */
export function listIdentities(providers: Config['providers']): IdentitySource[] {
  return Object.entries(listConnections(providers)).map(([name, { identity }]) => ({ name, identity }));
}
