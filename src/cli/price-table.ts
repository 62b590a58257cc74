/**
 * The widely used public price table (one JSON object, a model a member, with `litellm_provider`, `mode` and `*_cost_per_*`) as rows of our
 * catalog, for the providers that are configured. Prices are moved as decimal text from the table's source to the row: `3e-06` a token is
 * `3` a million, and no binary fraction is in between.
 *
 * An entry that cannot be a row is left out with a reason, never guessed: a wrong price is worse than an unknown one.
 */
import type { Kind } from '../config/config.ts';
import { isServed } from '../config/starter-catalog.ts';
import { shiftDecimal } from '../core/cost.ts';
import { asString, isObject, type JsonObject } from '../core/json/narrow.ts';

/** A provider that gets rows. */
export interface TableProvider {
  readonly name: string;
  readonly serves: readonly string[];
  /** How the table calls its vendor. */
  readonly tableNames: readonly string[];
}

export interface SkippedEntry {
  /** The entry's name in the table. */
  readonly entry: string;
  readonly reason: string;
}

export interface ConvertedTable {
  /** Rows by `<provider>/<model>`, in the form of gateway.yaml. */
  readonly models: Readonly<Record<string, JsonObject>>;
  readonly skipped: readonly SkippedEntry[];
  /** How many entries are of vendors that none of the providers stands for. */
  readonly unmatched: number;
}

/** Throws SyntaxError when the text is no JSON, RangeError when it is no such table. */
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
      else if (JSON.stringify(existing) !== JSON.stringify(row))
        skipped.push({ entry, reason: 'the table has it twice; the first one counts' });
    }
  }
  return { models, skipped, unmatched };
}

/** Numbers become the text they are written as. The entry that documents the fields is no model. */
function parseTable(text: string): [string, JsonObject][] {
  const keepSource = (_key: string, value: unknown, context?: { source?: string }): unknown =>
    typeof value === 'number' ? (context?.source ?? String(value)) : value;
  const parsed: unknown = JSON.parse(text, keepSource);
  const entries = isObject(parsed) ? Object.entries(parsed) : [];
  const table = entries.flatMap(([name, fields]): [string, JsonObject][] =>
    isObject(fields) && name !== 'sample_spec' && asString(fields.litellm_provider) !== null ? [[name, fields]] : [],
  );
  if (table.length === 0) throw new RangeError('no entry of it has a litellm_provider');
  return table;
}

/** `groq/openai/gpt-oss-20b` of the vendor groq is the vendor's model `openai/gpt-oss-20b`. */
function toModelName(entry: string, vendorNames: readonly string[]): string {
  const prefix = vendorNames.find((name) => entry.startsWith(`${name}/`));
  return prefix === undefined ? entry : entry.slice(prefix.length + 1);
}

function rejectByName(model: string): string | null {
  if (/(?:^|\/)(?:\d+-x-\d+|max-x-max)\//.test(model)) return 'it is the price of one size, and a row has one price an image';
  if (model.startsWith('ft:')) return 'it stands for fine-tuned models, whose names are longer';
  if (model.includes('*')) return 'it stands for several models';
  return /[\s\p{C}]/u.test(model) || model === '' ? 'its name has a character that no model may have' : null;
}

const kindsByMode: Readonly<Record<string, Kind>> = {
  chat: 'chat',
  responses: 'chat',
  embedding: 'embeddings',
  moderation: 'moderations',
  rerank: 'rerank',
  image_generation: 'images',
  audio_speech: 'speech',
  video_generation: 'video',
};

type Fields = JsonObject;

/** The row, or why there is none. */
function toRow(fields: Fields, provider: TableProvider): JsonObject | string {
  const mode = asString(fields.mode);
  const kind = mode === null || !Object.hasOwn(kindsByMode, mode) ? undefined : kindsByMode[mode];
  if (kind === undefined) return mode === null ? 'it has no mode' : `no route is for the mode ${mode}`;
  if (!isServed(kind, provider.serves)) return `the provider ${provider.name} does not serve ${kind}`;
  const faulty = Object.keys(fields).find((name) => isPriceField(name) && toAmount(fields[name], 0) === null);
  if (faulty !== undefined) return `${faulty} is no amount`;
  if (isCharged(toAmount(fields.input_cost_per_request, 0))) return 'it is charged by the request too';
  const prices = toPrices(fields, kind);
  if (prices === null) return reasonWithoutPrice(fields, kind);
  return { ...(kind !== 'chat' ? { kind } : toCapabilities(fields, provider)), ...prices, ...toTokenLimits(fields, kind) };
}

/**
 * What a chat model takes, in the words of gateway.yaml. The table says only what a model has: what it does not name is not there.
 *
 * `supports_response_schema` also stands for models of the messages dialect that are asked for JSON by way of a tool, so it says surely only
 * who takes no schema; `supports_native_structured_output` says who does. The table does not tell in which form a model is told to think.
 */
function toCapabilities(fields: Fields, { serves }: TableProvider): JsonObject {
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

/** The price fields that rows are made of; other service tiers, audio and tools are not. */
function isPriceField(name: string): boolean {
  return /^(?:(?:in|out)put_cost_per_(?:token|image|character|second|query|search_unit|request|image_token|audio_token|video_per_second)|cache_(?:read|creation)_input_token_cost|cache_creation_input_token_cost_above_1hr|input_cost_per_token_cache_hit)(?:_above_\d+k_tokens)?$/.test(
    name,
  );
}

function toPrices(fields: Fields, kind: Kind): JsonObject | null {
  const tokens = toTokenPrices(fields, kind, '');
  const hasTokens = isCharged(tokens.input) || isCharged(tokens.output);
  switch (kind) {
    case 'chat': {
      const above = toLongInputPrices(fields, tokens);
      return tokens.input === undefined || tokens.output === undefined ? null : compact({ ...tokens, above_tokens: above });
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
      if (!isCharged(image)) return hasTokens && tokens.input !== undefined ? compact(tokens) : null;
      return compact({ per_image: image, ...(hasTokens && tokens.input !== undefined && tokens) });
    }
    case 'speech': {
      const characters = toAmount(fields.input_cost_per_character, 6);
      if (isCharged(characters)) return compact({ per_million_characters: characters });
      return hasTokens && tokens.input !== undefined ? compact(tokens) : null;
    }
    case 'video': {
      const second = toAmount(fields.output_cost_per_second ?? fields.output_cost_per_video_per_second, 0);
      return isCharged(second) ? { per_second: second } : null;
    }
    default:
      return kind satisfies never;
  }
}

function reasonWithoutPrice(fields: Fields, kind: Kind): string {
  if (fields.input_cost_per_pixel !== undefined || fields.output_cost_per_pixel !== undefined) return 'it is charged by the pixel';
  return `it has no price that ${kind === 'chat' ? 'tokens' : kind} could be charged by`;
}

interface TokenAmounts {
  readonly input: string | undefined;
  readonly output: string | undefined;
  readonly cached_input?: string | undefined;
  readonly cache_write?: string | undefined;
  readonly cache_write_1h?: string | undefined;
}

/** USD per million tokens, of the fields that end with `suffix`. What an image or speech model gives out are image or audio tokens. */
function toTokenPrices(fields: Fields, kind: Kind, suffix: string): TokenAmounts {
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

/** Prices of longer calls; what the table leaves out of them is as for shorter ones, but for caches, which then cost what input costs. */
function toLongInputPrices(fields: Fields, base: TokenAmounts): JsonObject | undefined {
  const bounds = new Set(Object.keys(fields).flatMap((name) => /^(?:in|out)put_cost_per_token_above_(\d+)k_tokens$/.exec(name)?.[1] ?? []));
  const rows = [...bounds].map((thousands) => {
    const { input = base.input, output = base.output, ...caches } = toTokenPrices(fields, 'chat', `_above_${thousands}k_tokens`);
    return [`${thousands}000`, compact({ input, output, ...caches })] as const;
  });
  return rows.length === 0 ? undefined : Object.fromEntries(rows);
}

function toTokenLimits(fields: Fields, kind: Kind): JsonObject {
  const input = toCount(fields.max_input_tokens);
  // The older field stands for either of the two.
  const output = kind === 'chat' ? (toCount(fields.max_output_tokens) ?? toCount(fields.max_tokens)) : undefined;
  return compact({ max_input_tokens: input, max_output_tokens: output });
}

/** Decimal text of an amount moved by `places`; undefined when it is not given, null when it is none. */
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

/** Without the members that are not given. */
function compact(members: object): JsonObject {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined && value !== null));
}
