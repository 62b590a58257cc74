/** The configuration and everything derived from it, as one immutable value. A reload replaces the whole; nothing changes a part of it. */
import type { CatalogRow, Config } from '../config/config.ts';
import { buildCatalog } from '../routing/catalog.ts';
import { buildMediaProviders } from '../vendors/media.ts';
import { buildProviders } from '../vendors/registry.ts';

export type ConfigSnapshot = Readonly<ReturnType<typeof createSnapshot>>;

/** `revision`: number of reloads. A response cached under one configuration is not served under another. */
export function createSnapshot(config: Config, revision: number) {
  return {
    config,
    catalog: buildCatalog(config),
    providers: buildProviders(config.providers),
    mediaProviders: buildMediaProviders(config.providers),
    revision,
  };
}

/** The same configuration with other active models: imported rows were merged or changed. */
export function withModels(snapshot: ConfigSnapshot, models: Readonly<Record<string, CatalogRow>>): ConfigSnapshot {
  return { ...snapshot, catalog: buildCatalog({ ...snapshot.config, models }) };
}
