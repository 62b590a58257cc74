/** Decides which embedding models the gateway runs itself. Also defines their provider and their tier. */
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
   * The names of the configured providers. If an operator has named one of them `local`, the gateway doesn't run any
   * models itself, because its own embedder would need that name.
   */
  readonly providerNames: ReadonlySet<string>;
}

/**
 * Returns the local models that the gateway has to run. These are the ones that tiers refer to. If no tier refers to a
 * local model that we know, we may still need the default model, e.g. because there are no other embeddings.
 */
export function findUsedLocalModels(mode: 'auto' | 'on' | 'off', { tiers, providerNames }: UseFacts): readonly LocalModel[] {
  if (mode === 'off' || providerNames.has(localProvider)) return [];
  const ids = Object.values(tiers).flat();
  const named = localModels.filter((model) => ids.includes(toLocalModelId(model)));
  if (named.length > 0) return named;
  const isNamed = ids.some((id) => getProviderName(id) === localProvider);
  return mode === 'on' || isNamed || !hasEmbeddingTier(tiers) ? [defaultLocalModel] : [];
}

export function hasEmbeddingTier(tiers: Tiers): boolean {
  return ['memory-embed', 'embed'].some((tier) => (tiers[tier] ?? []).length > 0);
}

/**
 * Defines the embedder's provider and tiers in the format of gateway.yaml. It runs on the same machine, which may be
 * busy, so the timeouts are long.
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
