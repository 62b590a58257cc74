/**
 * Builds catalog rows with integer prices (nano-dollars per million tokens) from the decimal text in gateway.yaml.
 *
 * If a row has no `cached_input` or `cache_write`, we charge the input price for these tokens, which is never less than
 * what the vendor charges. The exception is the messages dialect, where cache writes cost 1.25 times the input price
 * for five minutes and twice the input price for an hour, because these are Anthropic's prices.
 *
 * An operator may only want to change a model's price. So if a row has no traits (`supports_schema`, `thinking`,
 * `reasons`, `takes_reasoning`, `serves`, `takes`), limits (`max_output_tokens`, `max_input_tokens`, `context_window`),
 * service tier factors or tool prices, we take them from the starter catalog.
 */
import type { ModelTraits } from '../core/candidate.ts';
import { nanosFromUsd } from '../core/cost.ts';
import { isObject } from '../core/json/narrow.ts';
import type { Price } from '../core/pricing.ts';
import { supportedParams } from '../core/supported-params.ts';
import type { CatalogRow, Kind, ProviderConfig, RowSource } from './config.ts';
import { type ModelValues, modelId, modelRow } from './file-schema.ts';
import { findImageTokens } from './image-tokens.ts';
import { findStarterRow, inferKind } from './starter-models.ts';
import { findVendorByName } from './vendors/known-vendors.ts';
import type { AddError, Path } from './yaml-file.ts';

export interface CatalogOptions {
  readonly source: RowSource;
  readonly addError: AddError;
  /**
   * Returns the number at this path exactly as it's written in the file, or null if the row doesn't come from a file.
   */
  readonly getSourceText: (path: Path) => string | null;
  readonly findProvider: FindProvider;
}

export type FindProvider = (name: string) => Pick<ProviderConfig, 'dialect' | 'vendor'> | null;

export function buildCatalogRows(values: Readonly<Record<string, ModelValues>>, options: CatalogOptions): Record<string, CatalogRow> {
  return Object.fromEntries(Object.entries(values).map(([id, row]) => [id, buildRow(id, row, options)]));
}

/**
 * Parses imported rows, which have the same format as in gateway.yaml: `{"<provider>/<model>": {"input": "0.15", …}}`.
 */
export function parseImportedRows(models: unknown, findProvider: FindProvider): { rows: Record<string, CatalogRow>; errors: string[] } {
  if (!isObject(models)) return { rows: {}, errors: ['models: must be an object with one row for each model'] };
  const errors: string[] = [];
  const addError: AddError = (path, sentence) => errors.push(`${path.join('.')}: ${sentence}`);
  const rows = Object.entries(models).flatMap(([id, values]) => {
    const before = errors.length;
    const key = modelId.safeParse(id);
    for (const issue of key.error?.issues ?? []) addError(['models', id.slice(0, 300)], issue.message);
    if (key.success && findProvider(getProviderName(id)) === null) addError(['models', id], `there is no provider ${getProviderName(id)}`);
    const parsed = modelRow.safeParse(values);
    for (const { path, message } of parsed.error?.issues ?? []) addError(['models', id, ...path.map(String)], message);
    if (!parsed.success || errors.length > before) return [];
    const row = buildRow(id, parsed.data, { addError, source: 'import', getSourceText: () => null, findProvider });
    return errors.length > before ? [] : [[id, row] as const];
  });
  return { rows: Object.fromEntries(rows), errors };
}

type TokenPrices = Pick<ModelValues, 'input' | 'output' | 'cached_input' | 'cache_write' | 'cache_write_1h'>;
type Amount = (value: string | number | undefined, ...segments: Path) => bigint | null;

function buildRow(id: string, row: ModelValues, { addError, source, getSourceText, findProvider }: CatalogOptions): CatalogRow {
  const kind = inferKind(row);
  const provider = findProvider(getProviderName(id));
  const model = id.slice(getProviderName(id).length + 1);
  const vendor = provider?.vendor ?? null;
  const starter = findStarterRow(vendor, model);
  const toolPrices = (kind === 'chat' && vendor !== null && findVendorByName(vendor)?.toolPrices) || {};
  const chargesCacheWrites = provider?.dialect === 'messages';
  const amount: Amount = (value, ...segments) => {
    if (value === undefined) return null;
    const path = ['models', id, ...segments];
    try {
      return nanosFromUsd(typeof value === 'number' ? (getSourceText(path) ?? value) : value);
    } catch {
      addError(path, 'must be an amount in USD, written as a decimal number such as 0.15');
      return null;
    }
  };
  const priceAt = (prices: TokenPrices, ...segments: Path): Price | null => {
    const input = amount(prices.input, ...segments, 'input');
    const output = amount(prices.output, ...segments, 'output');
    if (input === null && prices.input === undefined && Object.values(prices).some((price) => price !== undefined)) {
      addError(['models', id, ...segments, 'input'], 'is required if you set another token price');
    }
    if (kind === 'chat' && prices.input !== undefined && prices.output === undefined) {
      addError(['models', id, ...segments, 'output'], 'is required if you set input');
    }
    const cached = amount(prices.cached_input, ...segments, 'cached_input');
    const write = amount(prices.cache_write, ...segments, 'cache_write');
    const write1h = amount(prices.cache_write_1h, ...segments, 'cache_write_1h');
    if (input === null) return null;
    const cacheWriteNanos = write ?? (chargesCacheWrites ? (input * 5n + 3n) / 4n : input);
    return {
      inputNanos: input,
      outputNanos: output ?? 0n,
      cachedInputNanos: cached ?? input,
      cacheWriteNanos,
      cacheWrite1hNanos: write1h ?? (chargesCacheWrites ? input * 2n : cacheWriteNanos),
    };
  };
  const amounts = (member: 'service_tiers' | 'per_tool_use', values: Readonly<Record<string, string | number>>): Record<string, bigint> =>
    Object.fromEntries(Object.entries(values).map(([name, value]) => [name, amount(value, member, name) ?? 0n]));
  const tiers = amounts('service_tiers', { ...starter?.service_tiers, ...row.service_tiers });
  const { input, output, cached_input, cache_write, cache_write_1h } = row;
  const flat = amount(row.per_million_tokens, 'per_million_tokens');
  if (flat !== null && (input !== undefined || output !== undefined)) {
    addError(['models', id, 'per_million_tokens'], 'cannot be combined with input and output, which it replaces');
  }
  if (kind !== 'chat' && row.serves !== undefined) addError(['models', id, 'serves'], 'is only allowed for chat models');
  if (!textKinds.has(kind) && row.first_content_timeout_ms !== undefined) {
    addError(
      ['models', id, 'first_content_timeout_ms'],
      'is not allowed for image, speech, transcription and video models, because they have no failover',
    );
  }
  checkTakes(row.takes ?? [], kind, (message, index) => addError(['models', id, 'takes', index], message));
  return {
    id,
    source,
    kind,
    price: flat === null ? priceAt({ input, output, cached_input, cache_write, cache_write_1h }) : flatPrice(flat),
    aboveTokens: Object.entries(row.above_tokens ?? {})
      .flatMap(([tokens, prices]) => {
        const price = priceAt(prices, 'above_tokens', tokens);
        return price === null ? [] : [{ tokens: Number(tokens), price }];
      })
      .sort((left, right) => left.tokens - right.tokens),
    maxOutputTokens: row.max_output_tokens ?? starter?.max_output_tokens ?? null,
    maxInputTokens: row.max_input_tokens ?? starter?.max_input_tokens ?? null,
    contextWindow: row.context_window ?? starter?.context_window ?? null,
    firstContentTimeoutMs: row.first_content_timeout_ms ?? null,
    imageTokens: row.image_tokens ?? (kind === 'chat' ? findImageTokens(model) : null),
    // Factors are stored in millionths, but `amounts` returns billionths (nano-dollars), so divide by a thousand.
    tierMillionths: Object.fromEntries(Object.entries(tiers).map(([tier, factor]) => [tier, factor / 1_000n])),
    perToolUseNanos: amounts('per_tool_use', { ...toolPrices, ...starter?.per_tool_use, ...row.per_tool_use }),
    traits: toTraits({ ...starter, ...row }),
    serves: row.serves ?? starter?.serves ?? null,
    takes: row.takes ?? starter?.takes ?? null,
    imageInputNanos: amount(row.image_input, 'image_input'),
    perImageNanos: amount(row.per_image, 'per_image'),
    perMillionCharactersNanos: amount(row.per_million_characters, 'per_million_characters'),
    perSecondNanos: amount(row.per_second, 'per_second'),
    perSearchNanos: amount(row.per_search, 'per_search'),
  };
}

const textKinds: ReadonlySet<Kind> = new Set(['chat', 'embeddings', 'moderations', 'rerank']);

function checkTakes(fields: readonly string[], kind: Kind, addError: (message: string, index: number) => void): void {
  const allowed: readonly string[] = kind === 'images' || kind === 'speech' ? supportedParams[kind] : [];
  for (const [index, field] of fields.entries()) {
    if (allowed.length === 0) addError('is only allowed for image and speech models', index);
    else if (!allowed.includes(field)) addError(`models of kind ${kind} only accept ${allowed.join(', ')}`, index);
  }
}

function toTraits({ supports_schema: supportsSchema, thinking, reasons, takes_reasoning: takesReasoning }: ModelValues): ModelTraits {
  return {
    ...(supportsSchema !== undefined && { supportsSchema }),
    ...(thinking !== undefined && { thinking }),
    ...(reasons !== undefined && { reasons }),
    ...(takesReasoning !== undefined && { takesReasoning }),
  };
}

function flatPrice(nanos: bigint): Price {
  return { inputNanos: nanos, outputNanos: nanos, cachedInputNanos: nanos, cacheWriteNanos: nanos, cacheWrite1hNanos: nanos };
}

/** Returns the provider in a model id, i.e. the part before the first slash. */
export function getProviderName(id: string): string {
  return id.slice(0, id.indexOf('/'));
}
