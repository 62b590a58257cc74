/**
 * `/provision/catalog` returns the active models with their prices, and imports rows that take precedence over the
 * built-in ones. The command `gateway catalog` uses it. Prices are JSON numbers in USD. Token prices are per million
 * tokens.
 */
import { z } from 'zod';
import type { ModelProperties } from '../../../core/candidate.ts';
import { toUsd } from '../../../core/cost.ts';
import { parseOrBadRequest } from '../../../core/parse-or-bad-request.ts';
import type { ImportReceipt } from '../../../usage/prices/active-models.ts';
import { type ModelPrices, writePrices } from '../../../usage/prices/stored-price.ts';
import type { Responders } from './responders.ts';

export interface CatalogEntry extends ModelPrices, Omit<ModelProperties, 'firstContentTimeoutMs'> {
  readonly id: string;
  readonly kind: string;
  readonly source: string;
}

/** The properties of a provider (without its key) that help to find its models in the public price table. */
export interface CatalogProviderEntry {
  readonly name: string;
  readonly host: string;
  /** The name of the vendor, or null if it isn't one that we know. */
  readonly vendor: string | null;
  readonly dialect: string;
  readonly serves: readonly string[];
}

export interface CatalogRouteDeps {
  readonly listModels: () => readonly CatalogEntry[];
  readonly listProviders: () => readonly CatalogProviderEntry[];
  readonly importModels: (models: unknown) => Promise<ImportReceipt>;
}

/** The maximum size of an import. A catalog with ten thousand models takes about 2 MiB. */
export const maxCatalogBytes = 16 * 1024 * 1024;

export function addCatalogRoutes({ read, change }: Responders, deps: CatalogRouteDeps): void {
  const { listModels, listProviders, importModels } = deps;
  read('/catalog', async () => ({ object: 'list', data: listModels().map(toEntryJson), providers: listProviders() }));
  change('put', '/catalog', 'catalog.import', async (request, change) => {
    const { models } = parseOrBadRequest(importBody, request.body);
    const receipt = await importModels(models);
    change.note(summarize(receipt));
    return { object: 'catalog_import', ...receipt };
  });
}

/** An import can contain thousands of models, so the summary lists at most 20 names of each kind. */
function summarize(receipt: ImportReceipt): Record<string, unknown> {
  return Object.fromEntries(Object.entries(receipt).map(([name, models]) => [name, { count: models.length, models: models.slice(0, 20) }]));
}

/** The configuration validates the models, because it knows the providers. This only checks the shape of the body. */
const importBody = z.strictObject({ models: z.record(z.string(), z.unknown()) });

/** Unknown traits are left out (`supports_schema`, `thinking`, `reasons`, `takes_reasoning`, `serves`, `takes`). */
function toEntryJson(entry: CatalogEntry): Record<string, unknown> {
  const { id, kind, source, traits, serves, takes } = entry;
  return {
    ...{ id, kind, source, price: writePrices(entry, usd, (factor) => Number(factor) / 1e6) },
    max_input_tokens: entry.maxInputTokens,
    context_window: entry.contextWindow,
    max_output_tokens: entry.maxOutputTokens,
    image_tokens: entry.imageTokens,
    supports_schema: traits.supportsSchema,
    thinking: traits.thinking,
    reasons: traits.reasons,
    takes_reasoning: traits.takesReasoning,
    serves: serves ?? undefined,
    takes: takes ?? undefined,
  };
}

function usd(nanos: bigint): number {
  return toUsd(Number(nanos));
}
