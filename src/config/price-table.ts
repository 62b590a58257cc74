/**
 * Converts the public price table to catalog rows for the configured providers. The table is a JSON object with an
 * entry for each model (`litellm_provider`, `mode`, `*_cost_per_*`). We keep prices as decimal strings throughout, so
 * that they stay exact. For example, `3e-06` per token becomes `3` per million.
 *
 * A wrong price is worse than no price, so we don't guess. If there's an entry that we can't convert, we skip it and
 * report the reason.
 */

import { shiftDecimal } from '../core/cost.ts';
import { asObject, asString, isObject, type JsonObject } from '../core/json/narrow.ts';
import { readJson } from '../core/json/reader.ts';
import type { Kind } from './config.ts';
import { isServed } from './starter-models.ts';

export interface TableProvider {
  readonly name: string;
  readonly serves: readonly string[];
  readonly tableNames: readonly string[];
}

export interface SkippedEntry {
  readonly entry: string;
  readonly reason: string;
}

export interface ConvertedTable {
  /** Catalog rows in the format of gateway.yaml, keyed by `<provider>/<model>`. */
  readonly models: Readonly<Record<string, JsonObject>>;
  readonly skipped: readonly SkippedEntry[];
  /** The number of table entries for vendors that no provider uses. */
  readonly unmatched: number;
}

/** Throws a SyntaxError if the text isn't JSON, and a RangeError if it isn't a price table. */
export function convertPriceTable(text: string, providers: readonly TableProvider[]): ConvertedTable {
  const table = parseTable(text);
  const models: Record<string, JsonObject> = {};
  const skipped: SkippedEntry[] = [];
  let unmatched = 0;
  for (const [entry, fields] of table) {
    const vendor = asString(fields.litellm_provider) ?? '';
    const matching = providers.filter(({ tableNames }) => tableNames.includes(vendor));
    if (matching.length === 0) unmatched += 1;
    for (const provider of matching) {
      const model = toModelName(entry, [vendor, ...provider.tableNames]);
      const row = rejectByName(model) ?? toRow(fields, provider);
      const id = `${provider.name}/${model}`;
      const existing = models[id];
      if (typeof row === 'string') skipped.push({ entry, reason: row });
      else if (existing === undefined) models[id] = row;
      else if (JSON.stringify(existing) !== JSON.stringify(row)) skipped.push({ entry, reason: 'duplicate entry; the first one is used' });
    }
  }
  return { models, skipped, unmatched };
}

/**
 * Parses the table and keeps the source text of numbers. Leaves out `sample_spec`, which isn't a model but describes
 * the fields.
 */
function parseTable(text: string): [string, JsonObject][] {
  const parsed = readJson(text, { toNumber: (source) => source });
  const entries = isObject(parsed) ? Object.entries(parsed) : [];
  const table = entries.flatMap(([name, fields]): [string, JsonObject][] =>
    isObject(fields) && name !== 'sample_spec' && asString(fields.litellm_provider) !== null ? [[name, fields]] : [],
  );
  if (table.length === 0) throw new RangeError('no entry has a litellm_provider');
  return table;
}

/** Strips the vendor prefix. For example, groq's entry `groq/openai/gpt-oss-20b` is the model `openai/gpt-oss-20b`. */
function toModelName(entry: string, vendorNames: readonly string[]): string {
  const prefix = vendorNames.find((name) => entry.startsWith(`${name}/`));
  return prefix === undefined ? entry : entry.slice(prefix.length + 1);
}

function rejectByName(model: string): string | null {
  if (/(?:^|\/)(?:\d+-x-\d+|max-x-max)\//.test(model)) return 'priced per image size, but a row can only have one price per image';
  if (model.startsWith('ft:')) return 'stands for fine-tuned models, whose full names are not listed';
  if (model.includes('*')) return 'has a wildcard that matches several models';
  return /[\s\p{C}]/u.test(model) || model === '' ? 'its name contains a character that is not allowed in model ids' : null;
}

const kindsByMode: Readonly<Record<string, Kind>> = {
  chat: 'chat',
  responses: 'chat',
  embedding: 'embeddings',
  moderation: 'moderations',
  rerank: 'rerank',
  image_generation: 'images',
  audio_speech: 'speech',
  audio_transcription: 'transcriptions',
  video_generation: 'video',
};

/** Converts an entry of the table to a catalog row. Returns the reason as a text if that isn't possible. */
function toRow(fields: JsonObject, provider: TableProvider): JsonObject | string {
  const mode = asString(fields.mode);
  const kind = mode === null || !Object.hasOwn(kindsByMode, mode) ? undefined : kindsByMode[mode];
  if (kind === undefined) return mode === null ? 'has no mode' : `no route serves the mode ${mode}`;
  if (!isServed(kind, provider.serves)) return `the provider ${provider.name} does not serve ${kind}`;
  const faulty = Object.keys(fields).find((name) => isPriceField(name) && toAmount(fields[name], 0) === null);
  if (faulty !== undefined) return `${faulty} is not a valid price`;
  if (isCharged(toAmount(fields.input_cost_per_request, 0))) return 'also charged per request, which is not supported';
  const prices = toPrices(fields, kind);
  if (prices === null) return reasonWithoutPrice(fields, kind);
  return { ...(kind !== 'chat' ? { kind } : toCapabilities(fields, provider)), ...prices, ...toTokenLimits(fields, kind) };
}

/**
 * Returns a chat model's capabilities in the format of gateway.yaml. The table only lists what a model supports, so we
 * treat a missing capability as unsupported. It doesn't say how to request thinking.
 *
 * Models that accept a schema have `supports_native_structured_output`. `supports_response_schema` is also set for
 * models of the messages dialect that produce JSON through a tool, so it doesn't tell us much. But if it's missing, the
 * model doesn't accept a schema.
 */
function toCapabilities(fields: JsonObject, { serves }: TableProvider): JsonObject {
  const responsesOnly = asString(fields.mode) === 'responses' ? { serves: ['responses'] } : {};
  const isReasoning = fields.supports_reasoning === true;
  if (!serves.includes('messages')) return { ...responsesOnly, reasons: isReasoning };
  const takesSchema = fields.supports_native_structured_output === true;
  return {
    ...responsesOnly,
    ...(takesSchema ? { supports_schema: true } : fields.supports_response_schema === true ? {} : { supports_schema: false }),
    ...(isReasoning ? {} : { thinking: 'none' }),
  };
}

/** Checks whether this is a price that we can use in a catalog row. We ignore other prices, e.g. those of tools. */
function isPriceField(name: string): boolean {
  return /^(?:(?:in|out)put_cost_per_(?:token|image|character|second|query|search_unit|request|image_token|audio_token|video_per_second)|cache_(?:read|creation)_input_token_cost|cache_creation_input_token_cost_above_1hr|input_cost_per_token_cache_hit)(?:_above_\d+k_tokens|_priority|_flex)?$/.test(
    name,
  );
}

function toPrices(fields: JsonObject, kind: Kind): JsonObject | null {
  const tokens = toTokenPrices(fields, kind, '');
  const hasTokens = isCharged(tokens.input) || isCharged(tokens.output);
  switch (kind) {
    case 'chat': {
      const above = toLongInputPrices(fields, tokens);
      const tiers = toServiceTiers(fields, tokens);
      return tokens.input === undefined || tokens.output === undefined
        ? null
        : compact({ ...tokens, above_tokens: above, service_tiers: tiers });
    }
    case 'embeddings':
      return tokens.input === undefined
        ? null
        : compact({ input: tokens.input, output: isCharged(tokens.output) ? tokens.output : undefined });
    case 'moderations':
      return hasTokens ? compact(tokens) : {};
    case 'rerank': {
      const search = toAmount(fields.input_cost_per_query ?? fields.input_cost_per_search_unit, 0);
      if (!isCharged(search)) return hasTokens && tokens.input !== undefined ? { input: tokens.input } : null;
      return compact({ per_search: search, input: isCharged(tokens.input) ? tokens.input : undefined });
    }
    case 'images': {
      const image = toAmount(fields.output_cost_per_image ?? (hasTokens ? undefined : fields.input_cost_per_image), 0);
      const all = { ...tokens, image_input: toAmount(fields.input_cost_per_image_token, 6) ?? undefined };
      if (!isCharged(image)) return hasTokens && tokens.input !== undefined ? compact(all) : null;
      return compact({ per_image: image, ...(hasTokens && tokens.input !== undefined && all) });
    }
    case 'speech': {
      const characters = toAmount(fields.input_cost_per_character, 6);
      if (isCharged(characters)) return compact({ per_million_characters: characters });
      return hasTokens && tokens.input !== undefined ? compact(tokens) : null;
    }
    case 'transcriptions': {
      if (hasTokens && tokens.input !== undefined) return compact(tokens);
      const second = toAmount(fields.input_cost_per_second, 0);
      return isCharged(second) ? { per_second: second } : null;
    }
    case 'video': {
      const second = toAmount(fields.output_cost_per_second ?? fields.output_cost_per_video_per_second, 0);
      return isCharged(second) ? { per_second: second } : null;
    }
    default:
      return kind satisfies never;
  }
}

function reasonWithoutPrice(fields: JsonObject, kind: Kind): string {
  if (fields.input_cost_per_pixel !== undefined || fields.output_cost_per_pixel !== undefined)
    return 'charged per pixel, which is not supported';
  return `has no price for ${kind === 'chat' ? 'tokens' : kind}`;
}

type TokenAmounts = ReturnType<typeof toTokenPrices>;

/**
 * Returns the prices in USD per million tokens, from the fields whose names end with `suffix`. For image and speech
 * models, the output consists of image and audio tokens.
 */
function toTokenPrices(fields: JsonObject, kind: Kind, suffix: string) {
  const amount = (name: string): string | undefined => toAmount(fields[`${name}${suffix}`], 6) ?? undefined;
  const special =
    kind === 'images' ? amount('output_cost_per_image_token') : kind === 'speech' ? amount('output_cost_per_audio_token') : undefined;
  return {
    input: amount('input_cost_per_token'),
    output: special ?? amount('output_cost_per_token'),
    cached_input: amount('cache_read_input_token_cost') ?? amount('input_cost_per_token_cache_hit'),
    cache_write: amount('cache_creation_input_token_cost'),
    cache_write_1h: amount('cache_creation_input_token_cost_above_1hr'),
  };
}

/**
 * Returns the prices for long inputs. If the table only has a normal price for input or output, it applies to long
 * inputs as well. If it has no cache prices for long inputs, cached tokens cost as much as other input.
 */
function toLongInputPrices(fields: JsonObject, base: TokenAmounts): JsonObject | undefined {
  const bounds = new Set(Object.keys(fields).flatMap((name) => /^(?:in|out)put_cost_per_token_above_(\d+)k_tokens$/.exec(name)?.[1] ?? []));
  const rows = [...bounds].map((thousands) => {
    const { input = base.input, output = base.output, ...caches } = toTokenPrices(fields, 'chat', `_above_${thousands}k_tokens`);
    return [`${thousands}000`, compact({ input, output, ...caches })] as const;
  });
  return rows.length === 0 ? undefined : Object.fromEntries(rows);
}

/**
 * Returns the factor by which each service tier multiplies the price. For `priority` and `flex`, the table contains
 * prices, so we divide them by the normal prices. If this gives different factors for input and output, we use the
 * larger one. For vendors with the messages dialect, the table also contains factors for `fast` (fast mode) and `us` (a
 * region), which we use as they are.
 */
function toServiceTiers(fields: JsonObject, base: TokenAmounts): JsonObject | undefined {
  const priced = ['priority', 'flex'].map((tier) => {
    const { input, output } = toTokenPrices(fields, 'chat', `_${tier}`);
    const factors = [divide(input, base.input), divide(output, base.output)].flatMap((factor) => factor ?? []);
    return [tier, factors.length === 0 ? undefined : toFactor(Math.max(...factors))] as const;
  });
  const special = asObject(fields.provider_specific_entry);
  const given = ['fast', 'us'].map((tier) => [tier, toAmount(special[tier], 0)] as const);
  const tiers = compact(Object.fromEntries([...priced, ...given]));
  return Object.keys(tiers).length === 0 ? undefined : tiers;
}

function divide(amount: string | undefined, base: string | undefined): number | null {
  return isCharged(amount) && isCharged(base) ? Number(amount) / Number(base) : null;
}

function toFactor(factor: number): string {
  return String(Number(factor.toFixed(6)));
}

function toTokenLimits(fields: JsonObject, kind: Kind): JsonObject {
  const input = toCount(fields.max_input_tokens);
  // Old entries have `max_tokens` instead, which can mean the input or the output limit. We only use it as the output
  // limit.
  const output = kind === 'chat' ? (toCount(fields.max_output_tokens) ?? toCount(fields.max_tokens)) : undefined;
  return compact({ max_input_tokens: input, max_output_tokens: output });
}

/**
 * Returns an amount as decimal text, with the decimal point moved by `places`. A missing amount is undefined, and
 * anything that isn't a number is null.
 */
function toAmount(value: unknown, places: number): string | undefined | null {
  if (value === undefined || value === null) return undefined;
  return typeof value === 'string' ? shiftDecimal(value, places) : null;
}

function isCharged(amount: string | undefined | null): amount is string {
  return typeof amount === 'string' && /[1-9]/.test(amount);
}

function toCount(value: unknown): number | undefined {
  const count = typeof value === 'string' ? Number(value) : Number.NaN;
  return Number.isInteger(count) && count >= 1 && count <= 100_000_000 ? count : undefined;
}

function compact(members: object): JsonObject {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined && value !== null));
}
