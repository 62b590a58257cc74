/**
 * `/provision/catalog` returns the active models with their prices, and imports rows that override the built-in ones.
 * `gateway catalog` uses it. Prices are JSON numbers in USD, and token prices are per million.
 */
import type { Router } from 'express';
import { z } from 'zod';
import type { ModelTraits } from '../../../core/candidate.ts';
import { toUsd } from '../../../core/cost.ts';
import { parseOrBadRequest } from '../../../core/parse-or-bad-request.ts';
import type { Price, TokenPrice } from '../../../core/pricing.ts';
import type { ImportReceipt } from '../../../usage/prices/active-models.ts';
import type { ModelPrices } from '../../../usage/prices/stored-price.ts';
import { readJson } from '../../admin.ts';
import type { Responders } from './responders.ts';

/** A model that calls can currently use. */
export interface CatalogEntry extends ModelPrices {
  readonly id: string;
  readonly kind: string;
  readonly source: string;
  readonly maxInputTokens: number | null;
  readonly contextWindow: number | null;
  readonly maxOutputTokens: number | null;
  readonly imageTokens: number | null;
  readonly traits: ModelTraits;
  readonly serves: readonly string[] | null;
  readonly takes: readonly string[] | null;
}

/** What an importer needs to find a provider's models in a public table. It never includes the provider's key. */
export interface CatalogProviderEntry {
  readonly name: string;
  readonly host: string;
  /** The known vendor, or null. */
  readonly vendor: string | null;
  readonly dialect: string;
  readonly serves: readonly string[];
}

export interface CatalogRouteDeps {
  readonly listModels: () => readonly CatalogEntry[];
  readonly listProviders: () => readonly CatalogProviderEntry[];
  readonly importModels: (models: unknown) => Promise<ImportReceipt>;
}

/** Ten thousand models take about 2 MiB. */
const maxCatalogBytes = 16 * 1024 * 1024;

export function addCatalogRoutes(router: Router, { read, change }: Responders, deps: CatalogRouteDeps): void {
  const { listModels, listProviders, importModels } = deps;
  router.get(
    '/catalog',
    read(async () => ({ object: 'list', data: listModels().map(toEntryJson), providers: listProviders() })),
  );
  router.put(
    '/catalog',
    readJson(maxCatalogBytes),
    change('catalog.import', async (request, change) => {
      const { models } = parseOrBadRequest(importBody, request.body);
      const receipt = await importModels(models);
      change.note(summarize(receipt));
      return { object: 'catalog_import', ...receipt };
    }),
  );
}

/** An import can contain thousands of models, so the audit log only names the first 20 of each kind. */
function summarize(receipt: ImportReceipt): Record<string, unknown> {
  return Object.fromEntries(Object.entries(receipt).map(([name, models]) => [name, { count: models.length, models: models.slice(0, 20) }]));
}

/** The rows themselves are parsed by the configuration, because it knows the providers. */
const importBody = z.strictObject({ models: z.record(z.string(), z.unknown()) });

/**
 * Traits that we don't know are left out (`supports_schema`, `thinking`, `reasons`, `takes_reasoning`, `serves`,
 * `takes`).
 */
function toEntryJson({
  id,
  kind,
  source,
  maxInputTokens,
  contextWindow,
  maxOutputTokens,
  imageTokens,
  traits,
  serves,
  takes,
  ...prices
}: CatalogEntry): Record<string, unknown> {
  const { supportsSchema, thinking, reasons, takesReasoning } = traits;
  return {
    ...{ id, kind, source, price: toPricesJson(prices) },
    ...{ max_input_tokens: maxInputTokens, context_window: contextWindow, max_output_tokens: maxOutputTokens },
    image_tokens: imageTokens,
    ...{
      supports_schema: supportsSchema,
      thinking,
      reasons,
      takes_reasoning: takesReasoning,
      serves: serves ?? undefined,
      takes: takes ?? undefined,
    },
  };
}

/** Returns prices with the member names of gateway.yaml, or null if they're unknown. */
function toPricesJson({ price, perImageNanos, perMillionCharactersNanos, perSecondNanos }: ModelPrices): Record<string, unknown> | null {
  const json = {
    ...(price && toPriceJson(price)),
    ...(perImageNanos !== null && { per_image: usd(perImageNanos) }),
    ...(perMillionCharactersNanos !== null && { per_million_characters: usd(perMillionCharactersNanos) }),
    ...(perSecondNanos !== null && { per_second: usd(perSecondNanos) }),
  };
  return Object.keys(json).length === 0 ? null : json;
}

function toPriceJson(price: Price): Record<string, unknown> {
  return {
    ...toTokenPriceJson(price),
    ...(price.perSearchNanos !== undefined && { per_search: usd(price.perSearchNanos) }),
    ...(price.imageInputNanos !== undefined && { image_input: usd(price.imageInputNanos) }),
    ...(price.tierMillionths && { service_tiers: mapValues(price.tierMillionths, (factor) => Number(factor) / 1e6) }),
    ...(price.perToolUseNanos && { per_tool_use: mapValues(price.perToolUseNanos, usd) }),
    ...(price.above && { above_tokens: Object.fromEntries(price.above.map((above) => [above.tokens, toTokenPriceJson(above.price)])) }),
  };
}

function toTokenPriceJson(price: TokenPrice): Record<string, number> {
  return {
    input: usd(price.inputNanos),
    output: usd(price.outputNanos),
    cached_input: usd(price.cachedInputNanos),
    cache_write: usd(price.cacheWriteNanos),
    cache_write_1h: usd(price.cacheWrite1hNanos),
  };
}

function mapValues(record: Readonly<Record<string, bigint>>, toNumber: (value: bigint) => number): Record<string, number> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, toNumber(value)]));
}

function usd(nanos: bigint): number {
  return toUsd(Number(nanos));
}
