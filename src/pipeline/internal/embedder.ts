/**
 * Makes embedding calls for project memory. They're routed, recorded and charged like any other call, under the
 * application `gateway-memory`. We use the `memory-embed` tier if it has a chain, or else the `embed` tier.
 *
 * Vectors of different models can't be compared, so it's an error if any model but the first one of the chain responds.
 * However, a chain can contain the same model at several providers, which is why we compare model names without the
 * provider.
 */
import { type Caller, memoryApplication } from '../../core/call.ts';
import { GatewayError, gatewayError } from '../../core/errors.ts';
import { newId } from '../../core/ids.ts';
import { asArray, asObject, isObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import { findLocalModel, type LocalModel } from '../../core/local-model.ts';
import type { Clock } from '../../core/time.ts';
import { toUnitVector } from '../../memory/text/vectors.ts';
import type { Catalog } from '../../routing/catalog.ts';
import { findSkipReason, resolveModel } from '../../routing/rules.ts';
import { isContentRejected } from '../call/chain-error.ts';
import type { HandleCall } from '../call/handle-call.ts';
import { buildInternalCall, findTierWithChain, type MemoryProject, runInternalCall } from '../call/internal-call.ts';
import type { ProjectContext } from '../call/project-context.ts';

interface EmbedDeps {
  readonly handleCall: HandleCall;
  readonly catalog: () => Catalog;
  readonly clock: Clock;
  /** Returns true once the service's own model is ready. Until then, projects that use it can't embed any texts. */
  readonly isLocalModelReady: (model: LocalModel) => boolean;
}

interface EmbedRequest {
  readonly caller: Caller;
  readonly project: MemoryProject;
  readonly texts: readonly string[];
  /** Some models need to know if a text is a search query or one of the passages to search. */
  readonly purpose: 'query' | 'passage';
  /** Set if this embedding call belongs to a call that has already been counted against the key's `calls` ceiling. */
  readonly isExemptFromCallCeiling?: true;
  /** For all attempts together. */
  readonly timeoutMs: number;
}

export type Embedder = ReturnType<typeof createEmbedder>;

const tiers = ['memory-embed', 'embed'];

/**
 * The prefixes that models expect for queries and passages, because they were trained with them. The keys are model
 * names without the provider.
 */
const prefixes: Readonly<Record<string, { readonly query: string; readonly passage: string }>> = {
  'bge-small-en-v1.5': { query: 'Represent this sentence for searching relevant passages: ', passage: '' },
  'multilingual-e5-small-q4': { query: 'query: ', passage: 'passage: ' },
} satisfies Record<LocalModel, object>;

export function createEmbedder({ handleCall, catalog, clock, isLocalModelReady }: EmbedDeps) {
  const findChain = (project: ProjectContext, caller: Pick<Caller, 'requiredTags'>): { tier: string; model: string } | null => {
    const view = { catalog: catalog(), project, caller, source: memoryApplication };
    const tier = findTierWithChain(view, tiers);
    if (tier === null) return null;
    const first = resolveModel(view, tier).ids.find((id) => findSkipReason(view, 'embeddings', id) === null);
    if (first === undefined) return null;
    const local = findLocalModel(first);
    if (local !== null && !isLocalModelReady(local)) return null;
    return { tier, model: modelName(first) };
  };

  return {
    /** Returns the name of the project's embedding model, or null if the project can't embed texts. */
    getModel: (project: ProjectContext): string | null => findChain(project, {})?.model ?? null,
    /**
     * Returns unit vectors in the order of `texts`, with null in place of a zero vector. Throws the same errors as any
     * call, and `no_route` if the project can't embed texts.
     */
    async embed({
      caller,
      project,
      texts,
      purpose,
      isExemptFromCallCeiling,
      timeoutMs,
    }: EmbedRequest): Promise<{ model: string; vectors: (number[] | null)[] }> {
      const chain = findChain(project.settings, {});
      // If the key requires tags, routing may end up at a different embedding model than the project's. Its vectors
      // wouldn't be comparable with the stored ones, so we fail instead.
      if (chain === null || findChain(project.settings, caller)?.model !== chain.model) throw gatewayError('no_route');
      const now = clock.now();
      const prefix = prefixes[chain.model]?.[purpose] ?? '';
      const call = buildInternalCall({
        id: newId(now),
        route: 'embeddings',
        // Ignore the key's model list, which only restricts the application. Memory always uses the embedding model of
        // the project.
        caller: { ...caller, models: null },
        slug: project.slug,
        model: chain.tier,
        members: { input: prefix === '' ? texts : texts.map((text) => prefix + text) },
        timeoutMs,
        now,
        ...(isExemptFromCallCeiling && { isExemptFromCallCeiling }),
      });
      const response = await runInternalCall({ handleCall, call, project: project.settings, clock });
      const vectors = response.kind === 'plain' ? parseVectors(response.bytes, texts.length) : null;
      if (vectors === null || modelName(response.model) !== chain.model)
        throw gatewayError('upstream_failed', { message: 'the response has no vectors from the requested model' });
      return { model: chain.model, vectors };
    },
  };
}

/** Returns true if the model or a content rule rejected the text, so that a retry would fail again. */
export function isTextRejected(error: unknown): boolean {
  return error instanceof GatewayError && isContentRejected(error);
}

/**
 * Strips the provider from a model id, because e.g. `openai/text-embedding-3-small` and
 * `router/openai/text-embedding-3-small` produce the same vectors.
 */
function modelName(id: string): string {
  return id.slice(id.lastIndexOf('/') + 1);
}

/** Parses `count` vectors. Returns null unless the response has all of them and they have the same length. */
function parseVectors(bytes: Buffer, count: number): (number[] | null)[] | null {
  const rows = asArray(asObject(parseJson(bytes.toString('utf8'))).data).filter(isObject);
  const byIndex = new Map(rows.map((row, position) => [typeof row.index === 'number' ? row.index : position, asArray(row.embedding)]));
  const vectors = Array.from({ length: count }, (_, index) => toUnitVector(byIndex.get(index) ?? []));
  const lengths = new Set(Array.from({ length: count }, (_, index) => byIndex.get(index)?.length ?? 0));
  return lengths.size === 1 && !lengths.has(0) ? vectors : null;
}
