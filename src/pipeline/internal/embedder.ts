/**
 * Makes the embedding calls of project memory. They're routed, recorded and charged like any other call, under the
 * application `gateway-memory`. They use the first of the tiers `memory-embed` and `embed` that has a chain.
 *
 * Vectors of different models can't be compared. We therefore identify a model by its name without the provider, and
 * treat a response from another model than the first of the chain as an error. A chain may contain the same model at
 * several providers.
 */
import { type Caller, memoryApplication } from '../../core/call.ts';
import { GatewayError, gatewayError } from '../../core/errors.ts';
import { newId } from '../../core/ids.ts';
import { asArray, asObject, isObject, parseJson } from '../../core/json/narrow.ts';
import { localModel, localModelId } from '../../core/local-model.ts';
import type { Clock } from '../../core/time.ts';
import { toUnitVector } from '../../memory/text/vectors.ts';
import type { Catalog } from '../../routing/catalog.ts';
import { findSkipReason, resolveModel } from '../../routing/rules.ts';
import { isContentRejected } from '../call/chain-error.ts';
import type { HandleCall } from '../call/handle-call.ts';
import type { MemoryProject } from '../call/internal-call.ts';
import { buildInternalCall, findTierWithChain, runInternalCall } from '../call/internal-call.ts';
import type { ProjectContext } from '../call/project-context.ts';

interface EmbedDeps {
  readonly handleCall: HandleCall;
  readonly catalog: () => Catalog;
  readonly clock: Clock;
  /**
   * Reports whether the model that the service runs itself responds. While it doesn't, the projects that use it have no
   * route for embeddings.
   */
  readonly isLocalModelReady: () => boolean;
}

interface EmbedRequest {
  readonly caller: Caller;
  readonly project: MemoryProject;
  readonly texts: readonly string[];
  /** Whether the texts are search queries or are searched themselves. Some models need to know. */
  readonly purpose: 'query' | 'passage';
  /** Set if another call of the same key uses up the ceiling `calls`, so that this call doesn't count for it. */
  readonly isExemptFromCallCeiling?: true;
  /** The time for all attempts together. */
  readonly timeoutMs: number;
}

export type Embedder = ReturnType<typeof createEmbedder>;

const tiers = ['memory-embed', 'embed'];

/** The text that a model was trained to expect before a query, by the model's name without the provider. */
const queryPrefixes: Readonly<Record<string, string>> = { [localModel]: 'Represent this sentence for searching relevant passages: ' };

export function createEmbedder({ handleCall, catalog, clock, isLocalModelReady }: EmbedDeps) {
  const findChain = (project: ProjectContext, caller: Pick<Caller, 'requiredTags'>): { tier: string; model: string } | null => {
    const view = { catalog: catalog(), project, caller, source: memoryApplication };
    const tier = findTierWithChain(view, tiers);
    if (tier === null) return null;
    const first = resolveModel(view, tier).ids.find((id) => findSkipReason(view, 'embeddings', id) === null);
    if (first === undefined || (first === localModelId && !isLocalModelReady())) return null;
    return { tier, model: modelName(first) };
  };

  return {
    /** Returns the name of the project's embedding model. Null if the project has no route for embeddings. */
    getModel: (project: ProjectContext): string | null => findChain(project, {})?.model ?? null,
    /**
     * Returns unit vectors in the order of `texts`, with null in place of a zero vector. Throws the errors of the call,
     * or `no_route` if there is no route.
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
      // We don't ask a model that has the tags that the key requires, but whose vectors can't be compared with others.
      if (chain === null || findChain(project.settings, caller)?.model !== chain.model) throw gatewayError('no_route');
      const now = clock.now();
      const call = buildInternalCall({
        id: newId(now),
        route: 'embeddings',
        // The key's model list restricts the calling application, but the project decides which model memory uses.
        caller: { ...caller, models: null },
        slug: project.slug,
        model: chain.tier,
        members: { input: purpose === 'query' ? texts.map((text) => (queryPrefixes[chain.model] ?? '') + text) : texts },
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

/** Reports whether the model or a content rule rejects this text, so that a retry would fail again. */
export function isTextRejected(error: unknown): boolean {
  return error instanceof GatewayError && isContentRejected(error);
}

/**
 * Returns the same name for e.g. `openai/text-embedding-3-small` and `router/openai/text-embedding-3-small`, because
 * that's the same model.
 */
function modelName(id: string): string {
  return id.slice(id.lastIndexOf('/') + 1);
}

/** Parses `count` vectors of the same length. Returns null if the response doesn't contain them. */
function parseVectors(bytes: Buffer, count: number): (number[] | null)[] | null {
  const rows = asArray(asObject(parseJson(bytes.toString('utf8'))).data).filter(isObject);
  const byIndex = new Map(rows.map((row, position) => [typeof row.index === 'number' ? row.index : position, asArray(row.embedding)]));
  const vectors = Array.from({ length: count }, (_, index) => toUnitVector(byIndex.get(index) ?? []));
  const lengths = new Set(Array.from({ length: count }, (_, index) => byIndex.get(index)?.length ?? 0));
  return lengths.size === 1 && !lengths.has(0) ? vectors : null;
}
