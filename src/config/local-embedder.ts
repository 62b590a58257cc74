/**
 * Decides whether a configuration uses the embedding model that the gateway itself runs, and defines its provider and
 * tier.
 */
import type { Tiers } from '../core/call.ts';
import { localModelId, localModelMaxTokens, localProvider } from '../core/local-model.ts';
import { getProviderName } from './catalog.ts';
import type { FileValues } from './file-schema.ts';

interface UseFacts {
  readonly tiers: Tiers;
  /** The configuration's providers. If one of them is called `local`, it's just an ordinary provider. */
  readonly providerNames: ReadonlySet<string>;
}

export function isLocalEmbedderUsed(mode: 'auto' | 'on' | 'off', { tiers, providerNames }: UseFacts): boolean {
  if (mode === 'off' || providerNames.has(localProvider)) return false;
  const isNamed = Object.values(tiers).some((chain) => chain.some((id) => getProviderName(id) === localProvider));
  return mode === 'on' || isNamed || !hasEmbeddingTier(tiers);
}

/** Reports whether memory has a chain of embedding models. */
export function hasEmbeddingTier(tiers: Tiers): boolean {
  return ['memory-embed', 'embed'].some((tier) => (tiers[tier] ?? []).length > 0);
}

/**
 * Returns the values in the format of gateway.yaml. The timeouts allow for a process on the same machine that is busy
 * with other texts.
 */
export function localEmbedderValues({ url, token }: { readonly url: string; readonly token: string }): FileValues {
  return {
    providers: {
      [localProvider]: {
        ...{ base_url: url, api_key: token, dialect: 'chat', serves: ['embeddings'] },
        ...{ connect_timeout_ms: 1_000, first_byte_timeout_ms: 120_000 },
      },
    },
    models: { [localModelId]: { kind: 'embeddings', input: '0', max_input_tokens: localModelMaxTokens } },
    tiers: { embed: [localModelId] },
  };
}
