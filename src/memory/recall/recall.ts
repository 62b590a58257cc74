/**
 * Recalls memories for a call: finds the ones that are relevant to the user's message and formats them as a block for
 * the prompt (docs/api/reference.md#memory-rules).
 */
import { withTimeout } from '../../core/time-limit.ts';
import type { Logger } from '../../observability/logger.ts';
import {
  type FinderDeps,
  type FindRequest,
  type Found,
  type FoundMemory,
  findBeforeDeadline,
  maxRerankedCandidates,
  nothing,
  toMemoryQuery,
} from './find-memories.ts';
import { formatRecallBlock, type OmissionReason, type RecallBlock, toRecallLimits } from './recall-block.ts';

export interface RecallDeps extends FinderDeps {
  readonly logger: Pick<Logger, 'warn'>;
}

export interface RecallRequest extends Omit<FindRequest, 'isPartOfCall'> {
  readonly callId: string;
  readonly projectSlug: string;
}

export interface Recalled {
  readonly block: string;
  readonly itemIds: readonly string[];
  readonly subjects: readonly string[];
}

/** Resolves to null if nothing is recalled. Never rejects, and always settles by the deadline. */
export type Recall = (request: RecallRequest) => Promise<Recalled | null>;

/** Explains what recall would insert for a text. */
export interface RecallExplanation extends Omit<Found, 'memories'> {
  readonly query: string | null;
  readonly durationMs: number;
  readonly block: string | null;
  readonly used: readonly FoundMemory[];
  readonly omitted: readonly OmittedMemory[];
}

export type OmittedMemory = FoundMemory & { readonly reason: OmissionReason | 'rated_wrong' };

interface ExplainRequest extends Pick<FindRequest, 'caller' | 'subject'> {
  readonly text: string | null;
}

export function createRecall({ logger, ...deps }: RecallDeps) {
  /** Resolves to null if the search fails or takes too long. */
  const findRatedWrong = async (request: FindRequest, { vector }: Found): Promise<OmittedMemory[] | null> => {
    const timeoutMs = deps.deadlineMs();
    const query = { ...toMemoryQuery(request), vector, limit: maxRerankedCandidates, includesRatedWrong: true, timeoutMs };
    const memories = await withTimeout(
      deps.findMemories(query).catch(() => null),
      timeoutMs,
      () => null,
    );
    return memories?.filter(({ item }) => !item.inRecall).map((memory) => ({ ...memory, reason: 'rated_wrong' })) ?? null;
  };

  return {
    async recall({ callId, projectSlug, ...request }: RecallRequest): Promise<Recalled | null> {
      try {
        const found = await findBeforeDeadline(deps, { ...request, isPartOfCall: true });
        if (found.isLate && found.memories.length === 0) {
          logger.warn({ call: callId, project: projectSlug }, 'recall missed its deadline; continuing without memories');
        }
        return toRecalled(toBlock(found));
      } catch (err) {
        logger.warn({ call: callId, project: projectSlug, err }, 'recall failed; continuing without memories');
        return null;
      }
    },

    /**
     * Returns what recall would do if a call had this text. Rejects if the database fails before anything was found.
     */
    async explain({ text, ...scope }: ExplainRequest): Promise<RecallExplanation> {
      if (text === null) return { ...nothing, query: null, durationMs: 0, block: null, used: [], omitted: [] };
      const request = { ...scope, text, isPartOfCall: false, remainingMs: null, mayCallModels: true };
      const startedAt = performance.now();
      const { memories, ...found } = await findBeforeDeadline(deps, request);
      const { block, used, omitted } = toBlock({ memories, ...found });
      const durationMs = performance.now() - startedAt;
      const ratedWrong = found.isEnabled && !found.isLate ? await findRatedWrong(request, { memories, ...found }) : [];
      return {
        ...found,
        isLate: ratedWrong === null || found.isLate,
        query: toMemoryQuery(request).text,
        durationMs,
        block: used.length === 0 ? null : block,
        used: used.flatMap(({ id }) => memories.find(({ item }) => item.id === id) ?? []),
        omitted: [
          ...memories.flatMap((memory) => {
            const reason = omitted.get(memory.item.id);
            return reason === undefined ? [] : [{ ...memory, reason }];
          }),
          ...(ratedWrong ?? []),
        ],
      };
    },
  };
}

/**
 * With a budget, we leave out memories whose score is less than this share of the best score. On LoCoMo, that cuts the
 * text for a budget of 4,000 tokens down to 2,100, with nearly the same evidence.
 */
const minShareOfBest = 0.2;

function toBlock({ memories, budgetTokens }: Pick<Found, 'memories' | 'budgetTokens'>): RecallBlock {
  const minScore = budgetTokens === null ? 0 : minShareOfBest * Math.max(0, ...memories.map(({ score }) => score));
  // If a reranking model has rated the memory, trust its judgement more than our own score.
  const isWeak = ({ score, parts }: FoundMemory): boolean => score < minScore && typeof parts.relevance !== 'number';
  const strong = memories.filter((memory) => !isWeak(memory)).map(({ item }) => item);
  const { omitted, ...block } = formatRecallBlock(strong, toRecallLimits(budgetTokens));
  const weak = memories.filter(isWeak).map(({ item }) => [item.id, 'weak_match'] as const);
  return { ...block, omitted: new Map([...omitted, ...weak]) };
}

function toRecalled({ block, used }: RecallBlock): Recalled | null {
  if (used.length === 0) return null;
  const subjects = used.flatMap(({ subject }) => (subject === null ? [] : [subject]));
  return { block, itemIds: used.map(({ id }) => id), subjects: [...new Set(subjects)] };
}
