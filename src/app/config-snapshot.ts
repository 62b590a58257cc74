/** The configuration and everything derived from it, as one immutable value. A reload replaces the whole; nothing changes a part of it. */
import type { CatalogRow, Config } from '../config/config.ts';
import { buildCatalog, type Catalog } from '../routing/catalog.ts';
import type { RoutingFlags } from '../routing/select.ts';
import { buildMediaProviders, type MediaProvider } from '../vendors/media.ts';
import { buildProviders } from '../vendors/registry.ts';
import type { Provider } from '../vendors/vendor.ts';

export interface ConfigSnapshot {
  readonly config: Config;
  readonly catalog: Catalog;
  readonly providers: ReadonlyMap<string, Provider>;
  readonly mediaProviders: ReadonlyMap<string, MediaProvider>;
  readonly routingFlags: RoutingFlags;
  /** Number of reloads: a response cached under one configuration is not served under another. */
  readonly revision: number;
}

export function createSnapshot(config: Config, revision: number): ConfigSnapshot {
  return {
    config,
    catalog: buildCatalog(config),
    providers: buildProviders(config.providers),
    mediaProviders: buildMediaProviders(config.providers),
    routingFlags: { translates: true, catalogFill: config.catalogFill },
    revision,
  };
}

/** The same configuration with other active models: imported rows were merged or changed. */
export function withModels(snapshot: ConfigSnapshot, models: Readonly<Record<string, CatalogRow>>): ConfigSnapshot {
  return { ...snapshot, catalog: buildCatalog({ ...snapshot.config, models }) };
}
