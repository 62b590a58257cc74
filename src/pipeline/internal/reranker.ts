/**
 * Makes rerank calls for project memory. They're routed, recorded and charged like any other call, under the
 * application `gateway-memory`. They use the `memory-rerank` tier. If this tier has no chain, we don't rerank.
 */
import { type Caller, memoryApplication } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { newId } from '../../core/ids.ts';
import { asArray, asObject, isObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import type { Clock } from '../../core/time.ts';
import type { Catalog } from '../../routing/catalog.ts';
import type { HandleCall } from '../call/handle-call.ts';
import { buildInternalCall, findTierWithChain, type MemoryProject, runInternalCall } from '../call/internal-call.ts';
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
  /** Set if this rerank is part of a call that has already been counted against the key's `calls` ceiling. */
  readonly isExemptFromCallCeiling?: true;
  /** For all attempts together. */
  readonly timeoutMs: number;
}

export type Reranker = ReturnType<typeof createReranker>;

const tier = 'memory-rerank';

export function createReranker({ handleCall, catalog, clock }: RerankDeps) {
  return {
    hasRoute: (project: ProjectContext): boolean =>
      findTierWithChain({ catalog: catalog(), project, source: memoryApplication }, [tier]) !== null,
    /**
     * Returns the relevance of each text, or null for a text that the model didn't rate. Throws the same errors as any
     * call.
     */
    async rerank({ caller, project, query, texts, timeoutMs, ...options }: RerankRequest): Promise<(number | null)[]> {
      const now = clock.now();
      const call = buildInternalCall({
        ...options,
        id: newId(now),
        route: 'rerank',
        // Ignore the key's model list, which only restricts the application. Memory uses the rerank model that the
        // project has chosen.
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
        throw gatewayError('upstream_failed', { message: 'the response contains no ranked documents' });
      return relevances;
    },
  };
}

/** Voyage calls the list of results `data`, all other vendors call it `results` (docs/vendors.md#rerank). */
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
