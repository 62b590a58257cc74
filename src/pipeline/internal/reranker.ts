/**
 * Rerank calls of project memory: routed, recorded and charged like any call, under the application `gateway-memory`. They use the tier
 * `memory-rerank`; without a chain of it nothing is reranked.
 */
import type { Caller } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { newId } from '../../core/ids.ts';
import { asArray, asObject, isObject, parseJson } from '../../core/json/narrow.ts';
import type { Clock } from '../../core/time.ts';
import type { Catalog } from '../../routing/catalog.ts';
import type { HandleCall } from '../call/handle-call.ts';
import { buildInternalCall, findTierWithChain, type MemoryProject, memoryApplication, runInternalCall } from '../call/internal-call.ts';
import type { ProjectContext } from '../call/project-context.ts';

interface RerankDeps {
  readonly handleCall: HandleCall;
  readonly catalog: () => Catalog;
  readonly clock: Clock;
}

interface RerankRequest {
  readonly caller: Caller;
  readonly project: MemoryProject;
  readonly query: string;
  readonly texts: readonly string[];
  /** For a call of the same key, which takes the slot: this one does not count for the key's ceiling `calls`. */
  readonly takesNoSlot?: true;
  /** For all attempts together. */
  readonly timeoutMs: number;
}

export type Reranker = ReturnType<typeof createReranker>;

const tier = 'memory-rerank';

export function createReranker({ handleCall, catalog, clock }: RerankDeps) {
  return {
    hasRoute: (project: ProjectContext): boolean =>
      findTierWithChain({ catalog: catalog(), project, source: memoryApplication }, [tier]) !== null,
    /** Returns the relevance of each of `texts`, null where the model gave none. Throws the codes of the call. */
    async rerank({ caller, project, query, texts, timeoutMs, ...options }: RerankRequest): Promise<(number | null)[]> {
      const now = clock.now();
      const call = buildInternalCall({
        ...options,
        id: newId(now),
        route: 'rerank',
        // As for embeddings, the project decides which model memory uses.
        caller: { ...caller, models: null },
        slug: project.slug,
        model: tier,
        members: { query, documents: texts },
        timeoutMs,
        now,
      });
      const response = await runInternalCall({ handleCall, call, project: project.settings, clock });
      const relevances = response.kind === 'plain' ? parseRelevances(response.bytes, texts.length) : [];
      if (relevances.every((relevance) => relevance === null))
        throw gatewayError('upstream_failed', { message: 'the response ranks no document' });
      return relevances;
    },
  };
}

/** By the index of the document. The list is `results`, at Voyage `data` (docs/vendors.md#rerank). */
function parseRelevances(bytes: Buffer, count: number): (number | null)[] {
  const { results, data } = asObject(parseJson(bytes.toString('utf8')));
  const byIndex = new Map(
    asArray(results ?? data)
      .filter(isObject)
      .map((row) => [row.index, row.relevance_score]),
  );
  return Array.from({ length: count }, (_, index) => {
    const relevance = byIndex.get(index);
    return typeof relevance === 'number' && Number.isFinite(relevance) ? relevance : null;
  });
}
