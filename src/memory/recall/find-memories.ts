/**
 * Finds memories for a user message, and returns the best result that it has when the deadline passes.
 *
 * We start the vector search once the query is embedded. The text search is a fallback that starts if the embedding
 * fails, or if we haven't found anything after a quarter of the deadline, so most recalls only search once. If the
 * project has a model for it, we rerank the results. If reranking is late or fails, we keep the order of the search.
 */
import type { Caller } from '../../core/call.ts';
import { withTimeout } from '../../core/time-limit.ts';
import type { Item } from '../records/item-record.ts';
import type { TextVector } from '../text/vectors.ts';

/** A match of the search. */
export interface FoundMemory {
  readonly item: Item;
  /** From 0 to 1. */
  readonly score: number;
  readonly matchedBy: readonly ('vector' | 'text')[];
  /** The factors that determined its rank, by name. Null means unknown. */
  readonly parts: Readonly<Record<string, number | null>>;
}

export interface MemoryQuery {
  readonly projectId: string;
  /** Null searches the whole project. */
  readonly subject: string | null;
  readonly text: string;
  /** Null searches by text only. */
  readonly vector: TextVector | null;
  readonly limit: number;
  /** Whether to include memories that are excluded from recall because of their ratings. */
  readonly includesRatedWrong: boolean;
  /** Used as the statement timeout. */
  readonly timeoutMs: number;
}

/** Who pays for a model call that memory makes, and how long it may take. */
export interface CallOptions {
  readonly caller: Caller;
  readonly timeoutMs: number;
  /** Whether this is part of a call by the caller, which already occupies a slot of its key. */
  readonly isPartOfCall: boolean;
}

/**
 * Returns the relevance of each text to the query, with null where the model didn't return one. May reject or never
 * settle.
 */
export type Rerank = (query: string, texts: readonly string[], options: CallOptions) => Promise<readonly (number | null)[]>;

export interface FinderDeps {
  readonly isEnabled: (projectId: string) => boolean | Promise<boolean>;
  /**
   * Resolves to null if there's no route for embeddings. May reject, e.g. if a ceiling of the key is reached, or never
   * settle.
   */
  readonly embed: (text: string, options: CallOptions) => Promise<TextVector | null>;
  /** Resolves to null if the project has no reranking model. */
  readonly findReranker: (projectId: string) => Promise<Rerank | null>;
  /** Returns the best matches first. */
  readonly findMemories: (query: MemoryQuery) => Promise<readonly FoundMemory[]>;
  readonly deadlineMs: () => number;
}

export interface FindRequest {
  readonly caller: Caller;
  /** Null searches the whole project. */
  readonly subject: string | null;
  /** The last user message. */
  readonly text: string;
  readonly isPartOfCall: boolean;
  /** How much time the call has left, or null if it has no deadline. Recall takes at most half of it. */
  readonly remainingMs: number | null;
  /** False if the caller's ceilings leave no budget for model calls by memory. */
  readonly mayCallModels: boolean;
}

export interface Found {
  /** Sorted best first. */
  readonly memories: readonly FoundMemory[];
  /** The vector of the search that found the memories, or null if they were found by text only. */
  readonly vector: TextVector | null;
  readonly isReranked: boolean;
  /** False if memory is off, in which case nothing is searched. */
  readonly isEnabled: boolean;
  /** Whether the deadline passed, so that the result contains what we'd found by then. */
  readonly isLate: boolean;
}

/** Limits the search query. We keep the end of a long message, because users usually put their question there. */
const maxQueryLength = 2_000;
/** Twice as many as we insert, because we leave out near-duplicates. */
const maxCandidates = 20;
/** Higher than without reranking, because the model can move up memories that the search ranks low. */
export const maxRerankedCandidates = 30;
/** A fraction of the deadline. A local model embeds a query in a tenth of this time. */
const textSearchDelay = 0.25;
/**
 * The fraction of the deadline that has to be left to start reranking. If we started it later, we'd pay for a result
 * that we couldn't use, and its timeout would count against the vendor.
 */
const minRerankTime = 0.1;

/** The result if nothing was found. */
export const nothing: Found = { memories: [], vector: null, isReranked: false, isEnabled: true, isLate: false };

/** Returns the parts of a query that depend only on `request`. */
export function toMemoryQuery({ caller, subject, text }: FindRequest): Pick<MemoryQuery, 'projectId' | 'subject' | 'text'> {
  return { projectId: caller.projectId, subject, text: text.slice(-maxQueryLength).toWellFormed() };
}

/** Rejects if the database fails and nothing has been found yet. */
export async function findBeforeDeadline(deps: FinderDeps, request: FindRequest): Promise<Found> {
  const timeoutMs = Math.min(deps.deadlineMs(), (request.remainingMs ?? Number.POSITIVE_INFINITY) / 2);
  const endsAt = performance.now() + timeoutMs;
  const query = toMemoryQuery(request);
  const { caller, isPartOfCall, mayCallModels } = request;
  let best = nothing;

  const callOptions = (): CallOptions => ({ caller, isPartOfCall, timeoutMs: Math.max(1, Math.floor(endsAt - performance.now())) });

  const search = async (): Promise<Found> => {
    if (!(await deps.isEnabled(query.projectId))) return { ...nothing, isEnabled: false };
    const rerank = mayCallModels ? await deps.findReranker(query.projectId) : null;
    const limit = rerank ? maxRerankedCandidates : maxCandidates;
    const findBy = async (vector: TextVector | null): Promise<Found> => {
      const { timeoutMs: remainingMs } = callOptions();
      const memories = await deps.findMemories({ ...query, vector, limit, includesRatedWrong: false, timeoutMs: remainingMs });
      return { ...nothing, memories, vector };
    };
    let textSearch: Promise<Found> | null = null;
    const findByText = (): Promise<Found> => {
      textSearch ??= findBy(null).then((found) => {
        if (best === nothing) best = found;
        return found;
      });
      return textSearch;
    };
    const delayed = setTimeout(() => findByText().catch(() => undefined), timeoutMs * textSearchDelay);
    try {
      // The embedding call records its own error.
      const vector = mayCallModels ? await deps.embed(query.text, callOptions()).catch(() => null) : null;
      best = vector ? await findBy(vector).catch(findByText) : await findByText();
    } finally {
      clearTimeout(delayed);
    }
    return rerank ? rerankFound(best, rerank) : best;
  };

  const rerankFound = async (found: Found, rerank: Rerank): Promise<Found> => {
    if (found.memories.length < 2 || endsAt - performance.now() < timeoutMs * minRerankTime) return found;
    const texts = found.memories.map(({ item }) => item.text);
    // The reranking call records its own error, too.
    const relevances = await rerank(query.text, texts, callOptions()).catch(() => null);
    if (relevances === null) return found;
    const rank = ({ parts }: FoundMemory): number => parts.relevance ?? Number.NEGATIVE_INFINITY;
    const memories = found.memories
      .map((memory, index) => ({ ...memory, parts: { ...memory.parts, relevance: relevances[index] ?? null } }))
      .toSorted((one, other) => rank(other) - rank(one) || 0);
    return { ...found, memories, isReranked: true };
  };

  return withTimeout(search(), timeoutMs, () => ({ ...best, isLate: true }));
}
