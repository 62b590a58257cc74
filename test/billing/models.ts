/** Defines the models and prices of the scripted vendors, and the configuration of a gateway that calls them. */

/** Token prices are in USD per million tokens. The catalog and the ledger both use these numbers. */
export interface ModelPrices {
  readonly input: number;
  readonly output: number;
  readonly cachedInput: number;
  readonly cacheWrite: number;
  readonly cacheWrite1h: number;
  /** USD per search unit of a rerank request. */
  readonly perSearch: number;
  /** USD per web search that the vendor runs on its own. */
  readonly perWebSearch: number;
}

export interface VendorModel {
  readonly id: string;
  readonly dialect: 'chat' | 'messages';
  readonly kind: 'chat' | 'embeddings' | 'rerank' | 'images';
  readonly prices: ModelPrices;
  /** The vendor cuts every choice off after this many tokens. */
  readonly maxOutputTokens: number;
  /** How many input tokens the vendor bills for an image in the prompt. */
  readonly tokensPerImage: number;
  /** xAI and Google don't include reasoning in the completion tokens, only in the total. */
  readonly reasoning: 'inside completion' | 'beside completion';
  /** If true, the vendor writes prompts to its cache even if the caller doesn't ask for it. */
  readonly writesCache: boolean;
  /** How many input tokens the results of one web search add. */
  readonly tokensPerWebSearch: number;
  /** Factors by which a `service_tier` multiplies the token prices. */
  readonly tierFactors: Readonly<Record<string, number>>;
}

const free: ModelPrices = { input: 0, output: 0, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, perSearch: 0, perWebSearch: 0 };
const common = {
  kind: 'chat',
  dialect: 'chat',
  maxOutputTokens: 1,
  tokensPerImage: 0,
  reasoning: 'inside completion',
  writesCache: false,
  tokensPerWebSearch: 3_000,
  tierFactors: {},
} as const;

const models: readonly VendorModel[] = [
  {
    ...common,
    id: 'alpha/large',
    prices: { ...free, input: 2.5, output: 10, cachedInput: 0.25, cacheWrite: 3.125, cacheWrite1h: 3.125, perWebSearch: 0.01 },
    maxOutputTokens: 128_000,
    tokensPerImage: 1_105,
    writesCache: true,
    tierFactors: { priority: 2, flex: 0.5 },
  },
  {
    // OpenAI's small models bill many times more tokens per image than the large ones.
    ...common,
    id: 'alpha/mini',
    prices: { ...free, input: 0.6, output: 2.4, cachedInput: 0.3, cacheWrite: 0.6, cacheWrite1h: 0.6, perWebSearch: 0.01 },
    maxOutputTokens: 16_384,
    tokensPerImage: 36_835,
  },
  {
    ...common,
    id: 'beta/fast',
    prices: { ...free, input: 3, output: 15, cachedInput: 0.75, cacheWrite: 3, cacheWrite1h: 3 },
    maxOutputTokens: 64_000,
    tokensPerImage: 1_600,
    reasoning: 'beside completion',
  },
  {
    ...common,
    id: 'gamma/deep',
    dialect: 'messages',
    prices: { ...free, input: 5, output: 25, cachedInput: 0.5, cacheWrite: 6.25, cacheWrite1h: 10, perWebSearch: 0.01 },
    maxOutputTokens: 64_000,
    tokensPerImage: 1_600,
  },
  { ...common, id: 'alpha/vectors', kind: 'embeddings', prices: { ...free, input: 0.02 } },
  { ...common, id: 'alpha/order', kind: 'rerank', prices: { ...free, perSearch: 0.002 } },
  { ...common, id: 'alpha/sort', kind: 'rerank', prices: { ...free, input: 2 } },
  {
    ...common,
    id: 'alpha/picture',
    kind: 'images',
    prices: { ...free, input: 5, output: 30, cachedInput: 5, cacheWrite: 5, cacheWrite1h: 5 },
    maxOutputTokens: 4_160,
  },
];

export function findModel(id: string): VendorModel {
  const model = models.find((candidate) => candidate.id === id);
  if (!model) throw new Error(`the scripted vendors serve no ${id}`);
  return model;
}

/** Configures three vendors on a single server, which tells them apart by the first path segment. */
export function billingYaml(vendorUrl: string): string {
  return `
providers:
  alpha: { base_url: ${vendorUrl}/alpha/v1, api_key: key-alpha, dialect: chat, first_byte_timeout_ms: 20000 }
  beta: { base_url: ${vendorUrl}/beta/v1, api_key: key-beta, dialect: chat, serves: [chat], first_byte_timeout_ms: 20000 }
  gamma: { base_url: ${vendorUrl}/gamma/v1, api_key: key-gamma, dialect: messages, first_byte_timeout_ms: 20000 }
models:
${models.map(catalogRow).join('\n')}
tiers:
  any: [alpha/large, beta/fast, gamma/deep]
  embed: [alpha/vectors]
catalog_fill: false
`;
}

function catalogRow({ id, kind, dialect, prices, maxOutputTokens, tokensPerImage, tierFactors }: VendorModel): string {
  const row =
    kind === 'rerank'
      ? { kind, ...(prices.perSearch > 0 ? { per_search: prices.perSearch } : { input: prices.input }) }
      : kind === 'embeddings'
        ? { kind, input: prices.input }
        : {
            kind,
            input: prices.input,
            output: prices.output,
            cached_input: prices.cachedInput,
            cache_write: prices.cacheWrite,
            ...(dialect === 'messages' && { cache_write_1h: prices.cacheWrite1h }),
            ...(kind === 'chat' && { max_output_tokens: maxOutputTokens, image_tokens: tokensPerImage, service_tiers: tierFactors }),
            ...(prices.perWebSearch > 0 && { per_tool_use: { web_search: prices.perWebSearch } }),
          };
  return `  ${id}: ${JSON.stringify(row)}`;
}
