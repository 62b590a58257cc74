/** When a configuration uses the embedding model that the gateway itself runs, and as what. */
import type { Tiers } from '../core/call.ts';
import { localModelId, localModelMaxTokens, localProvider } from '../core/local-model.ts';
import { getProviderName } from './catalog.ts';
import type { FileValues } from './file-schema.ts';

interface UseFacts {
  readonly tiers: Tiers;
  /** Of the configuration. One of them may be called `local`: it is then an ordinary provider. */
  readonly providerNames: ReadonlySet<string>;
}

export function isLocalEmbedderUsed(mode: 'auto' | 'on' | 'off', { tiers, providerNames }: UseFacts): boolean {
  if (mode === 'off' || providerNames.has(localProvider)) return false;
  const isNamed = Object.values(tiers).some((chain) => chain.some((id) => getProviderName(id) === localProvider));
  return mode === 'on' || isNamed || !hasEmbeddingTier(tiers);
}

/** Whether memory has a chain of embedding models. */
export function hasEmbeddingTier(tiers: Tiers): boolean {
  return ['memory-embed', 'embed'].some((tier) => (tiers[tier] ?? []).length > 0);
}

/** In gateway.yaml's format. The time limits are for a process of this machine that is busy with other texts. */
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
