/**
 * The starter catalog contains the widely used models of the known vendors, with their list prices. With it, a provider
 * row with a URL and a key is enough to call models and see what they cost. Rows in gateway.yaml and imported rows
 * (`gateway catalog import`) take precedence.
 *
 * Token prices are for the vendor's standard service tier, in USD per million tokens unless the name says otherwise,
 * and `service_tiers` has the factors for other tiers. We took the prices from the vendors' pages on 2026-11-20, or
 * else from the public price table of that day. We omit models that have been shut down, that have an announced price
 * change, or that are charged by more than tokens. Import the public price table to get current prices.
 *
 * Hosts have to match exactly, because a vendor's regional hosts and resellers can charge more.
 */
import type { Kind, ProviderConfig } from './config.ts';
import type { ModelValues } from './file-schema.ts';
import { findVendorByName } from './vendors/known-vendors.ts';

/**
 * Returns the starter catalog's row for a vendor's model, if there is one. If another vendor made the model, we return
 * the row of that vendor, so the prices don't apply.
 */
export function findStarterRow(vendorName: string | null, model: string): ModelValues | null {
  const vendor = vendorName === null ? null : findVendorByName(vendorName);
  const models = vendor?.models ?? {};
  return Object.hasOwn(models, model) ? (models[model] ?? null) : (vendor?.findModel?.(model) ?? null);
}

/**
 * Returns the starter catalog's rows for all configured providers of known vendors. Their ids begin with the name of
 * the provider, not with that of the vendor.
 */
export function starterModels(providers: Readonly<Record<string, ProviderConfig>>): Record<string, ModelValues> {
  return Object.fromEntries(
    Object.values(providers).flatMap(({ name, vendor, serves }) => {
      const models = Object.entries((vendor === null ? null : findVendorByName(vendor))?.models ?? {});
      return models.filter(([, row]) => isServed(inferKind(row), serves)).map(([model, row]) => [`${name}/${model}`, row] as const);
    }),
  );
}

/**
 * Returns the kind of a row. If `kind` is missing, we infer it from the price. Models with a price per image,
 * character, second or search are media or rerank models, and all others are chat models.
 */
export function inferKind(row: ModelValues): Kind {
  if (row.kind !== undefined) return row.kind;
  if (row.per_image !== undefined) return 'images';
  if (row.per_million_characters !== undefined) return 'speech';
  if (row.per_second !== undefined) return 'video';
  return row.per_search === undefined ? 'chat' : 'rerank';
}

export function isServed(kind: Kind, serves: readonly string[]): boolean {
  const routes: readonly string[] = kind === 'chat' ? ['chat', 'messages', 'responses'] : [kind];
  return serves.some((route) => routes.includes(route));
}

export function getHost(address: string): string {
  return URL.canParse(address) ? new URL(address).hostname : '';
}
