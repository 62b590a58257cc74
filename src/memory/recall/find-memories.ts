/**
 * Finds memories for a user message. When the deadline passes, we return the best result that we have by then.
 *
 * The vector search starts as soon as the query is embedded. The text search is our fallback. It starts if the
 * embedding fails or takes more than a quarter of the deadline, or if we've found nothing after half of the deadline.
 * Most recalls therefore search only once. That matters most when the database is busy, because a second search would
 * slow it down even more.
 *
 * If the project has a reranking model, we rerank the results. If that fails or takes too long, we keep the order of
 * the search.
 */
import type { Caller } from '../../core/call.ts';
import { withTimeout } from '../../core/time-limit.ts';
import type { Item } from '../records/item-record.ts';
import type { MemorySettings } from '../records/settings-schema.ts';
import type { TextVector } from '../text/vectors.ts';

export interface FoundMemory {
  readonly item: Item;
  /** The score of the match, from 0 to 1. */
  readonly score: number;
  readonly matchedBy: readonly ('vector' | 'text')[];
  /** The factors of the score, by name. A factor is null if it's unknown. */
  readonly parts: Readonly<Record<string, number | null>>;
}

export interface MemoryQuery {
  readonly projectId: string;
  /** Null for the whole project. */
  readonly subject: string | null;
  readonly text: string;
  readonly vector: TextVector | null;
  readonly limit: number;
  /** True to include memories that recall would skip because of their ratings. */
  readonly includesRatedWrong: boolean;
  /** The database cancels the search after this time. */
  readonly timeoutMs: number;
}

/** Who pays for a model call that memory makes, and how long the call may take. */
export interface CallOptions {
  readonly caller: Caller;
  readonly timeoutMs: number;
  /** True if the caller is in the middle of another call, which already occupies a slot of the caller's key. */
  readonly isPartOfCall: boolean;
}

/**
 * Returns how relevant each text is to the query, or null for texts that the model has skipped. May reject, or never
 * settle.
 */
export type Rerank = (query: string, texts: readonly string[], options: CallOptions) => Promise<readonly (number | null)[]>;

type RecallSettings = Pick<MemorySettings, 'enabled' | 'recall_budget_tokens'>;

export interface FinderDeps {
  readonly readSettings: (projectId: string) => Promise<RecallSettings>;
  /**
   * Embeds a text. Resolves to null if there's no model for that. Callers also have to expect a rejection, e.g. because
   * of an exceeded ceiling, or a promise that never settles.
   */
  readonly embed: (text: string, options: CallOptions) => Promise<TextVector | null>;
  /** Resolves to null if the project hasn't configured a reranking model. */
  readonly findReranker: (projectId: string) => Promise<Rerank | null>;
  /** Resolves to the matches, best first. */
  readonly findMemories: (query: MemoryQuery) => Promise<readonly FoundMemory[]>;
  readonly deadlineMs: () => number;
}

export interface FindRequest {
  readonly caller: Caller;
  readonly subject: string | null;
  readonly text: string;
  readonly isPartOfCall: boolean;
  /** Time left until the call's deadline, of which recall takes at most half. Null if the call has no deadline. */
  readonly remainingMs: number | null;
  /** False if the caller's ceilings leave no room for the model calls that memory makes. */
  readonly mayCallModels: boolean;
}

export interface Found {
  readonly memories: readonly FoundMemory[];
  /** The query's vector. Null if the memories were found by text alone. */
  readonly vector: TextVector | null;
  readonly isReranked: boolean;
  /** False if the project has turned off memory. In that case nothing was searched. */
  readonly isEnabled: boolean;
  /** The project's token budget for recalled memories. Null if it hasn't set one. */
  readonly budgetTokens: number | null;
  /**
   * True if the deadline passed before the search and the reranking were done. The result is then what we had found so
   * far.
   */
  readonly isLate: boolean;
}

/** We only search for the end of a longer user message, because that's where people usually put their question. */
const maxQueryLength = 2_000;
/**
 * The minimum number of memories to search for. It's twice what recall inserts without a budget, because some will turn
 * out to be near-duplicates.
 */
const minCandidates = 20;
/**
 * With a token budget, recall inserts as many memories as fit. To know how many to search for, we assume that each has
 * at least this many tokens.
 */
const shortMemoryTokens = 25;
const maxCandidates = 150;
/**
 * How many memories we send to the reranking model. Without a token budget, that's more than we'd otherwise search for,
 * because the model may move up memories that the search has ranked low.
 */
export const maxRerankedCandidates = 30;
/**
 * When to start a search by text, in case the search by vector takes too long. It's a share of the deadline, and
 * depends on whether we already have the query's vector. Embedding a query locally takes about a tenth of
 * `withoutVector`.
 */
const textSearchDelay = { withoutVector: 0.25, withVector: 0.5 };
/**
 * Only rerank if at least this share of the deadline is left. Otherwise we'd pay for a result that comes too late, and
 * the timeout would count against the vendor.
 */
const minRerankTime = 0.1;

export const nothing: Found = {
  ...{ memories: [], vector: null, isReranked: false },
  ...{ isEnabled: true, budgetTokens: null, isLate: false },
};

export function toMemoryQuery({ caller, subject, text }: FindRequest): Pick<MemoryQuery, 'projectId' | 'subject' | 'text'> {
  return { projectId: caller.projectId, subject, text: text.slice(-maxQueryLength).toWellFormed() };
}

/** Rejects if the database fails, unless some memories were already found. */
export async function findBeforeDeadline(deps: FinderDeps, request: FindRequest): Promise<Found> {
  const timeoutMs = Math.min(deps.deadlineMs(), (request.remainingMs ?? Number.POSITIVE_INFINITY) / 2);
  const endsAt = performance.now() + timeoutMs;
  const query = toMemoryQuery(request);
  const { caller, isPartOfCall, mayCallModels } = request;
  let best = nothing;

  const callOptions = (): CallOptions => ({ caller, isPartOfCall, timeoutMs: Math.max(1, Math.floor(endsAt - performance.now())) });

  const search = async (): Promise<Found> => {
    const { enabled, recall_budget_tokens: budgetTokens } = await deps.readSettings(query.projectId);
    if (!enabled) return { ...nothing, isEnabled: false };
    const rerank = mayCallModels ? await deps.findReranker(query.projectId) : null;
    const limit = Math.max(rerank ? maxRerankedCandidates : minCandidates, toCandidates(budgetTokens));
    const findBy = async (vector: TextVector | null): Promise<Found> => {
      const { timeoutMs: remainingMs } = callOptions();
      const memories = await deps.findMemories({ ...query, vector, limit, includesRatedWrong: false, timeoutMs: remainingMs });
      return { ...nothing, memories, vector, budgetTokens };
    };
    let textSearch: Promise<Found> | null = null;
    const findByText = (): Promise<Found> => {
      textSearch ??= findBy(null).then((found) => {
        if (best === nothing) best = found;
        return found;
      });
      return textSearch;
    };
    const startTextSearchAfter = (share: number): NodeJS.Timeout =>
      setTimeout(() => findByText().catch(() => undefined), Math.max(1, endsAt - performance.now() - timeoutMs * (1 - share)));
    let delayed = startTextSearchAfter(textSearchDelay.withoutVector);
    try {
      // `embed` has already recorded the error, so just search by text.
      const vector = mayCallModels ? await deps.embed(query.text, callOptions()).catch(() => null) : null;
      if (vector) {
        clearTimeout(delayed);
        delayed = startTextSearchAfter(textSearchDelay.withVector);
      }
      best = vector ? await findBy(vector).catch(findByText) : await findByText();
    } finally {
      clearTimeout(delayed);
    }
    return rerank ? rerankFound(best, rerank) : best;
  };

  const rerankFound = async (found: Found, rerank: Rerank): Promise<Found> => {
    if (found.memories.length < 2 || endsAt - performance.now() < timeoutMs * minRerankTime) return found;
    const ranked = found.memories.slice(0, maxRerankedCandidates);
    const texts = ranked.map(({ item }) => item.text);
    // If reranking fails, keep the order of the search. `rerank` has already recorded the error.
    const relevances = await rerank(query.text, texts, callOptions()).catch(() => null);
    if (relevances === null) return found;
    const rank = ({ parts }: FoundMemory): number => parts.relevance ?? Number.NEGATIVE_INFINITY;
    const sorted = ranked
      .map((memory, index) => ({ ...memory, parts: { ...memory.parts, relevance: relevances[index] ?? null } }))
      .toSorted((one, other) => rank(other) - rank(one) || 0);
    return { ...found, memories: [...sorted, ...found.memories.slice(maxRerankedCandidates)], isReranked: true };
  };

  return withTimeout(search(), timeoutMs, () => ({ ...best, isLate: true }));
}

function toCandidates(budgetTokens: number | null): number {
  return budgetTokens === null ? 0 : Math.min(maxCandidates, Math.ceil(budgetTokens / shortMemoryTokens));
}
