/** Decides which embedding models the gateway runs itself, and defines the provider and the tier for them. */
import type { Tiers } from '../core/call.ts';
import {
  defaultLocalModel,
  type LocalModel,
  localModelMaxTokens,
  localModels,
  localProvider,
  toLocalModelId,
} from '../core/local-model.ts';
import { getProviderName } from './catalog.ts';
import type { FileValues } from './file-schema.ts';

interface UseFacts {
  readonly tiers: Tiers;
  /**
   * The names of the configured providers. A provider that happens to be named `local` is an ordinary provider, and
   * then the gateway doesn't run any models itself.
   */
  readonly providerNames: ReadonlySet<string>;
}

/**
 * Returns the local models in the tiers. If there are none, returns the default model if the configuration needs it, or
 * else an empty list.
 */
export function findUsedLocalModels(mode: 'auto' | 'on' | 'off', { tiers, providerNames }: UseFacts): readonly LocalModel[] {
  if (mode === 'off' || providerNames.has(localProvider)) return [];
  const ids = Object.values(tiers).flat();
  const named = localModels.filter((model) => ids.includes(toLocalModelId(model)));
  if (named.length > 0) return named;
  const isNamed = ids.some((id) => getProviderName(id) === localProvider);
  return mode === 'on' || isNamed || !hasEmbeddingTier(tiers) ? [defaultLocalModel] : [];
}

/** Returns true if memory can use one of the configured tiers for embeddings. */
export function hasEmbeddingTier(tiers: Tiers): boolean {
  return ['memory-embed', 'embed'].some((tier) => (tiers[tier] ?? []).length > 0);
}

/**
 * Returns the provider and tiers in the format of gateway.yaml. The timeouts are long, because the embedder runs on the
 * same machine and may be busy.
 */
export function localEmbedderValues(
  models: readonly LocalModel[],
  { url, token }: { readonly url: string; readonly token: string },
): FileValues {
  const ids = models.map(toLocalModelId);
  return {
    providers: {
      [localProvider]: {
        ...{ base_url: url, api_key: token, dialect: 'chat', serves: ['embeddings'] },
        ...{ connect_timeout_ms: 1_000, first_byte_timeout_ms: 120_000 },
      },
    },
    models: Object.fromEntries(ids.map((id) => [id, { kind: 'embeddings', input: '0', max_input_tokens: localModelMaxTokens }])),
    tiers: { embed: ids.slice(0, 1) },
  };
}
