/**
 * The starter catalog has common vendors by host, with their widely used models and list prices. All you need is a
 * provider row with a URL and a key to call models and see what they cost. Rows of gateway.yaml and imported rows
 * (`gateway catalog import`) take precedence.
 *
 * Token prices are for the vendor's standard service tier, in USD per million tokens unless the name says otherwise,
 * and `service_tiers` has the factors for other tiers. The prices are those that the vendors had published on their
 * pages by 2026-11-20, or else those in the public price table of that day. We omit models that have been shut down,
 * that have an announced price change, or that are charged by more than tokens. Import the public price table to get
 * current prices.
 *
 * Hosts have to match exactly, because a vendor's regional hosts and resellers may charge more.
 */
import type { Kind, ProviderConfig } from './config.ts';
import type { ModelValues } from './file-schema.ts';
import { anthropicModels, anthropicToolPrices } from './starter-catalog-anthropic.ts';
import { openaiModels, openaiToolPrices } from './starter-catalog-openai.ts';
import * as others from './starter-catalog-others.ts';

export interface Vendor {
  readonly hosts: readonly string[];
  /**
   * The vendor's names in the public price table, which uses them in `litellm_provider` and as the prefix of models.
   */
  readonly tableNames: readonly string[];
  readonly models: Readonly<Record<string, ModelValues>>;
  /** USD for each use of a tool that the vendor runs, by tool. Applies to all of the vendor's chat models. */
  readonly toolPrices?: Readonly<Record<string, string>>;
}

const vendors: readonly Vendor[] = [
  { hosts: ['api.openai.com'], tableNames: ['openai'], models: openaiModels, toolPrices: openaiToolPrices },
  { hosts: ['api.anthropic.com'], tableNames: ['anthropic'], models: anthropicModels, toolPrices: anthropicToolPrices },
  { hosts: ['generativelanguage.googleapis.com'], tableNames: ['gemini'], models: others.googleModels },
  { hosts: ['api.mistral.ai', 'codestral.mistral.ai'], tableNames: ['mistral', 'codestral'], models: others.mistralModels },
  { hosts: ['api.groq.com'], tableNames: ['groq'], models: others.groqModels },
  { hosts: ['api.deepseek.com'], tableNames: ['deepseek'], models: others.deepseekModels },
  { hosts: ['api.x.ai'], tableNames: ['xai'], models: others.xaiModels, toolPrices: others.xaiToolPrices },
  { hosts: ['api.cohere.com', 'api.cohere.ai'], tableNames: ['cohere', 'cohere_chat'], models: others.cohereModels },
  { hosts: ['api.jina.ai'], tableNames: ['jina_ai'], models: others.jinaModels },
  { hosts: ['api.voyageai.com'], tableNames: ['voyage'], models: others.voyageModels },
  { hosts: ['api.moonshot.ai'], tableNames: ['moonshot'], models: others.moonshotModels },
  { hosts: ['api.z.ai'], tableNames: ['zai'], models: others.zaiModels },
  { hosts: ['api.cerebras.ai'], tableNames: ['cerebras'], models: others.cerebrasModels },
  { hosts: ['api.elevenlabs.io'], tableNames: ['elevenlabs'], models: others.elevenlabsModels },
  // The models of these vendors are only in the public price table, because there are too many of them or because their
  // prices depend on the hardware.
  { hosts: ['openrouter.ai'], tableNames: ['openrouter'], models: {} },
  { hosts: ['api.together.xyz', 'api.together.ai'], tableNames: ['together_ai'], models: {} },
  { hosts: ['api.fireworks.ai'], tableNames: ['fireworks_ai', 'fireworks_ai-embedding-models'], models: {} },
  { hosts: ['api.deepinfra.com'], tableNames: ['deepinfra'], models: {} },
  { hosts: ['api.perplexity.ai'], tableNames: ['perplexity'], models: {} },
  { hosts: ['api.novita.ai'], tableNames: ['novita'], models: {} },
  { hosts: ['api.hyperbolic.xyz'], tableNames: ['hyperbolic'], models: {} },
  { hosts: ['api.sambanova.ai'], tableNames: ['sambanova'], models: {} },
  { hosts: ['dashscope.aliyuncs.com', 'dashscope-intl.aliyuncs.com'], tableNames: ['dashscope'], models: {} },
  { hosts: ['api.minimax.io'], tableNames: ['minimax'], models: {} },
];

/** Returns the vendor with this host, or null. */
export function findVendorByHost(host: string): Vendor | null {
  return vendors.find(({ hosts }) => hosts.includes(host)) ?? null;
}

/** Returns the starter row of a model at the vendor with this base URL, or null. */
export function findStarterRow(baseUrl: string, model: string): ModelValues | null {
  const models = findVendorByHost(getHost(baseUrl))?.models ?? {};
  return Object.hasOwn(models, model) ? (models[model] ?? null) : null;
}

/** Returns starter rows for all providers at known vendors. Their ids contain the provider's name. */
export function starterModels(providers: Readonly<Record<string, ProviderConfig>>): Record<string, ModelValues> {
  return Object.fromEntries(
    Object.values(providers).flatMap(({ name, baseUrl, serves }) => {
      const models = Object.entries(findVendorByHost(getHost(baseUrl))?.models ?? {});
      return models.filter(([, row]) => isServed(inferKind(row), serves)).map(([model, row]) => [`${name}/${model}`, row] as const);
    }),
  );
}

/**
 * Returns the kind of a row. If `kind` is missing, we infer it from the unit of the price. It's `chat` unless the price
 * is per image, character, second or search.
 */
export function inferKind(row: ModelValues): Kind {
  if (row.kind !== undefined) return row.kind;
  if (row.per_image !== undefined) return 'images';
  if (row.per_million_characters !== undefined) return 'speech';
  if (row.per_second !== undefined) return 'video';
  return row.per_search === undefined ? 'chat' : 'rerank';
}

/** Reports whether a provider with these routes serves models of this kind. */
export function isServed(kind: Kind, serves: readonly string[]): boolean {
  const routes: readonly string[] = kind === 'chat' ? ['chat', 'messages', 'responses'] : [kind];
  return serves.some((route) => routes.includes(route));
}

/** Returns the host of a URL, or an empty string if the URL is invalid. */
export function getHost(address: string): string {
  return URL.canParse(address) ? new URL(address).hostname : '';
}
