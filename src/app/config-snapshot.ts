/**
 * The configuration and everything that we derive from it, as an immutable value. A reload replaces the whole value.
 */
import { parseImportedRows } from '../config/catalog.ts';
import type { CatalogRow, Config } from '../config/config.ts';
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';
import { buildCatalog, toPrice } from '../routing/catalog.ts';
import { type ActiveModels, createActiveModels } from '../usage/prices/active-models.ts';
import type { Identities } from '../vendors/identity/identities.ts';
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
  identities.replace(Object.values(config.providers));
  return {
    config,
    catalog: buildCatalog(config),
    providers: buildProviders(config.providers, identities.find),
    mediaProviders: buildMediaProviders(config.providers, identities.find),
    revision,
  };
}
