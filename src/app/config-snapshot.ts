/** An immutable snapshot of the configuration and everything derived from it. A reload replaces it as a whole. */
import { parseImportedRows } from '../config/catalog.ts';
import type { Config, ProviderConfig } from '../config/config.ts';
import { ownValue } from '../core/own-value.ts';
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';
import { buildCatalog, toPrice } from '../routing/catalog.ts';
import { memberKey } from '../routing/pools.ts';
import { createActiveModels } from '../usage/prices/active-models.ts';
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

/** Holds the current snapshot. `replace` creates a new one, and so does a change to imported models. */
export function createCurrentConfig({ config, identities, database, clock, logger }: CurrentConfigOptions) {
  let current = createSnapshot(config, identities, 0);
  const activeModels = createActiveModels({
    database,
    clock,
    logger,
    configured: config.models,
    parseRows: (models) => parseImportedRows(models, (name) => ownValue(current.config.providers, name) ?? null),
    priceOf: toPrice,
    onChange(models) {
      current = { ...current, catalog: buildCatalog({ ...current.config, models }) };
    },
  });
  return {
    snapshot: (): ConfigSnapshot => current,
    /** The active models, both configured and imported. The caller has to start and stop them. */
    activeModels,
    replace(next: Config): void {
      current = createSnapshot(next, identities, current.revision + 1);
      activeModels.reconfigure(next.models);
    },
  };
}

/** Caches a value that is derived from the configuration, and only calls `create` again for a new snapshot. */
export function perSnapshot<Value>(snapshot: () => ConfigSnapshot, create: (current: ConfigSnapshot) => Value): () => Value {
  let last: { readonly snapshot: ConfigSnapshot; readonly value: Value } | null = null;
  return () => {
    const current = snapshot();
    if (last?.snapshot !== current) last = { snapshot: current, value: create(current) };
    return last.value;
  };
}

/**
 * `revision` increases with every reload. It's part of the cache key, so a reload also invalidates cached responses.
 */
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

/** Returns providers by name, including the members of pools, which are listed by their key. */
function listConnections(providers: Config['providers']): Record<string, ProviderConfig> {
  const members = Object.values(providers).flatMap(({ name, members: all }) =>
    all.map((each) => [memberKey(name, each.member), each] as const),
  );
  return { ...providers, ...Object.fromEntries(members) };
}

export function listIdentities(providers: Config['providers']): IdentitySource[] {
  return Object.entries(listConnections(providers)).map(([name, { identity }]) => ({ name, identity }));
}
