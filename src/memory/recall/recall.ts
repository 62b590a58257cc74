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
import { formatRecallBlock, type OmissionReason, type RecallBlock } from './recall-block.ts';

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
  /** The distinct subjects of the items. */
  readonly subjects: readonly string[];
}

/** Resolves to null if nothing is recalled. Never rejects, and never exceeds the deadline. */
export type Recall = (request: RecallRequest) => Promise<Recalled | null>;

/** What recall would insert, and why. */
export interface RecallExplanation extends Omit<Found, 'memories'> {
  /** The search query, or null if there's no user text. */
  readonly query: string | null;
  readonly durationMs: number;
  /** Null if nothing would be inserted. */
  readonly block: string | null;
  /** In the order of the block. */
  readonly used: readonly FoundMemory[];
  readonly omitted: readonly OmittedMemory[];
}

/** `rated_wrong` means that the memory's ratings exclude it from recall. */
export type OmittedMemory = FoundMemory & { readonly reason: OmissionReason | 'rated_wrong' };

interface ExplainRequest extends Pick<FindRequest, 'caller' | 'subject'> {
  /** The last user message, or null if there is none. */
  readonly text: string | null;
}

export function createRecall({ logger, ...deps }: RecallDeps) {
  /** Resolves to null if the search fails or exceeds the deadline. */
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
        return toRecalled(toBlock(await findBeforeDeadline(deps, { ...request, isPartOfCall: true })));
      } catch (err) {
        logger.warn({ call: callId, project: projectSlug, err }, 'recall failed; continuing without memories');
        return null;
      }
    },

    /**
     * Does the same as recall for a call with this text, but doesn't insert anything. Rejects if the database fails and
     * nothing has been found yet.
     */
    async explain({ text, ...scope }: ExplainRequest): Promise<RecallExplanation> {
      if (text === null) return { ...nothing, query: null, durationMs: 0, block: null, used: [], omitted: [] };
      const request = { ...scope, text, isPartOfCall: false, remainingMs: null, mayCallModels: true };
      const startedAt = performance.now();
      const { memories, ...found } = await findBeforeDeadline(deps, request);
      const { block, used, omitted } = toBlock({ memories });
      const durationMs = performance.now() - startedAt;
      const usedIds = new Set(used.map(({ id }) => id));
      const ratedWrong = found.isEnabled && !found.isLate ? await findRatedWrong(request, { memories, ...found }) : [];
      return {
        ...found,
        isLate: ratedWrong === null || found.isLate,
        query: toMemoryQuery(request).text,
        durationMs,
        block: used.length === 0 ? null : block,
        used: memories.filter(({ item }) => usedIds.has(item.id)),
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

const maxMemories = 10;

function toBlock({ memories }: Pick<Found, 'memories'>): RecallBlock {
  return formatRecallBlock(
    memories.map(({ item }) => item),
    maxMemories,
  );
}

function toRecalled({ block, used }: RecallBlock): Recalled | null {
  if (used.length === 0) return null;
  const subjects = used.flatMap(({ subject }) => (subject === null ? [] : [subject]));
  return { block, itemIds: used.map(({ id }) => id), subjects: [...new Set(subjects)] };
}
