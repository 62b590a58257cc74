/**
 * Memory's own calls for vectors: through the project's routing, recorded and paid like any call, under the application `gateway-memory`
 * (specification 4.8 rule 9). The first of the tiers `memory-embed` and `embed` that has a chain is asked.
 *
 * Vectors of different models have nothing to do with each other. So a model is known by its own name, whoever serves it, and an answer of
 * another model than the first of the chain is worth nothing here: the same model at two vendors is a chain that holds.
 */
import type { Call, Caller } from '../../core/call.ts';
import { GatewayError, gatewayError } from '../../core/errors.ts';
import { newId } from '../../core/ids.ts';
import { asArray, asObject, isObject, parseJson } from '../../core/json/narrow.ts';
import type { Clock } from '../../core/time.ts';
import { toUnitVector } from '../../memory/text/vectors.ts';
import type { Catalog } from '../../routing/catalog.ts';
import { findSkipReason, findTier, resolveModel } from '../../routing/rules.ts';
import { startCancellation } from '../call/cancellation.ts';
import type { HandleCall } from '../call/handle-call.ts';
import { buildInternalCall, memoryApplication } from '../call/internal-call.ts';
import type { ProjectContext } from '../call/project-context.ts';

export interface EmbedDeps {
  readonly handleCall: HandleCall;
  readonly catalog: () => Catalog;
  readonly clock: Clock;
}

export interface EmbedCaller {
  readonly caller: Caller;
  readonly project: { readonly slug: string; readonly settings: ProjectContext };
}

export interface EmbedRequest extends EmbedCaller {
  readonly texts: readonly string[];
  /** For all attempts together. */
  readonly timeoutMs: number;
}

export interface Embedder {
  /** Name of the model whose vectors count for the project; null: it has no route for embeddings. */
  getModel(project: ProjectContext): string | null;
  /** Unit vectors in the order of `texts`, null for one that has no direction. Throws what the call throws; `no_route` without a route. */
  embed(request: EmbedRequest): Promise<{ model: string; vectors: (number[] | null)[] }>;
}

const tiers = ['memory-embed', 'embed'];

export function createEmbedder({ handleCall, catalog, clock }: EmbedDeps): Embedder {
  const findChain = (project: ProjectContext): { tier: string; model: string } | null => {
    const view = { catalog: catalog(), project, source: memoryApplication };
    const tier = tiers.find((name) => (findTier(view, name) ?? []).length > 0);
    if (tier === undefined) return null;
    const first = resolveModel(view, tier).ids.find((id) => findSkipReason(view, 'embeddings', true, id) === null);
    return first === undefined ? null : { tier, model: modelName(first) };
  };

  return {
    getModel: (project) => findChain(project)?.model ?? null,
    async embed({ caller, project, texts, timeoutMs }) {
      const chain = findChain(project.settings);
      if (chain === null) throw gatewayError('no_route');
      const call = buildCall({ caller, slug: project.slug, tier: chain.tier, texts, timeoutMs, now: clock.now() });
      const cancellation = startCancellation({ stream: false, deadlineAt: call.deadlineAt, clock });
      try {
        const response = await handleCall(call, project.settings, cancellation);
        const vectors = response.kind === 'plain' ? parseVectors(response.bytes, texts.length) : null;
        if (vectors === null || modelName(response.model) !== chain.model)
          throw gatewayError('upstream_failed', { message: 'no vectors of the model that was asked' });
        return { model: chain.model, vectors };
      } finally {
        cancellation.clearDeadline();
      }
    },
  };
}

/** The text itself is at fault, for this model: asking again would not help. */
export function isTextRejected(error: unknown): boolean {
  return error instanceof GatewayError && (error.code === 'upstream_refused' || error.code === 'guardrail_blocked');
}

interface EmbedCallOptions {
  readonly caller: Caller;
  readonly slug: string;
  readonly tier: string;
  readonly texts: readonly string[];
  readonly timeoutMs: number;
  readonly now: number;
}

function buildCall({ caller, slug, tier, texts, timeoutMs, now }: EmbedCallOptions): Call {
  return buildInternalCall({
    id: newId(now),
    route: 'embeddings',
    // The key's list says what its application may ask for; which model memory uses is the project's affair.
    caller: { ...caller, models: null },
    slug,
    tier,
    members: { input: texts },
    timeoutMs,
    now,
  });
}

/** `openai/text-embedding-3-small` and `router/openai/text-embedding-3-small` are the same model. */
function modelName(id: string): string {
  return id.slice(id.lastIndexOf('/') + 1);
}

/** Null for what is no list of as many vectors of one length. */
function parseVectors(bytes: Buffer, count: number): (number[] | null)[] | null {
  const rows = asArray(asObject(parseJson(bytes.toString('utf8'))).data).filter(isObject);
  const byIndex = new Map(rows.map((row, position) => [typeof row.index === 'number' ? row.index : position, asArray(row.embedding)]));
  const vectors = Array.from({ length: count }, (_, index) => toUnitVector(byIndex.get(index) ?? []));
  const lengths = new Set(Array.from({ length: count }, (_, index) => byIndex.get(index)?.length ?? 0));
  return lengths.size === 1 && !lengths.has(0) ? vectors : null;
}
