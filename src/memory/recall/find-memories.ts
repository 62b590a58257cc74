/**
 * Finds memories for a user message, and returns the best result that it has when the deadline passes.
 *
 * We start the vector search once the query is embedded. The text search is a fallback that starts if the embedding
 * fails or takes more than a quarter of the deadline, or if we haven't found anything after half of the deadline. So most
 * recalls only search once, even on a busy database, which would only get slower if each of them searched twice. If the
 * project has a model for it, we rerank the results. If reranking is late or fails, we keep the order of the search.
 */
import type { Caller } from '../../core/call.ts';
import { withTimeout } from '../../core/time-limit.ts';
import type { Item } from '../records/item-record.ts';
import type { MemorySettings } from '../records/settings.ts';
import type { TextVector } from '../text/vectors.ts';

/** A match of the search. */
export interface FoundMemory {
  readonly item: Item;
  /** Between 0 and 1. */
  readonly score: number;
  readonly matchedBy: readonly ('vector' | 'text')[];
  /** The factors of the rank by name. A factor is null if we don't know it. */
  readonly parts: Readonly<Record<string, number | null>>;
}

export interface MemoryQuery {
  readonly projectId: string;
  /** If this is null, we search the whole project. */
  readonly subject: string | null;
  readonly text: string;
  /** The vector to search with. Null for a plain text search. */
  readonly vector: TextVector | null;
  readonly limit: number;
  /** True to include memories that are excluded from recall because of their ratings. */
  readonly includesRatedWrong: boolean;
  /** Used as the statement timeout. */
  readonly timeoutMs: number;
}

/** Who pays for the model calls that memory makes, and how long each may take. */
export interface CallOptions {
  readonly caller: Caller;
  readonly timeoutMs: number;
  /** True if this is on behalf of one of the caller's own calls, which already occupies a slot of its key. */
  readonly isPartOfCall: boolean;
}

/**
 * Returns the relevance of each text to the query, with null where the model didn't return one. May reject or never
 * settle.
 */
export type Rerank = (query: string, texts: readonly string[], options: CallOptions) => Promise<readonly (number | null)[]>;

type RecallSettings = Pick<MemorySettings, 'enabled' | 'recall_budget_tokens'>;

export interface FinderDeps {
  readonly readSettings: (projectId: string) => Promise<RecallSettings>;
  /**
   * Resolves to null if no model can embed texts. Callers have to be ready for a rejection, e.g. because of an exceeded
   * ceiling, and for a promise that never settles.
   */
  readonly embed: (text: string, options: CallOptions) => Promise<TextVector | null>;
  /** Null if the project hasn't configured a reranking model. */
  readonly findReranker: (projectId: string) => Promise<Rerank | null>;
  /** Best match first. */
  readonly findMemories: (query: MemoryQuery) => Promise<readonly FoundMemory[]>;
  readonly deadlineMs: () => number;
}

export interface FindRequest {
  readonly caller: Caller;
  /** Null for the whole project. */
  readonly subject: string | null;
  /** The text of the last user message. */
  readonly text: string;
  readonly isPartOfCall: boolean;
  /** The time until the call's deadline. Null if it has none. Recall takes at most half of this. */
  readonly remainingMs: number | null;
  /** False if the caller's ceilings don't leave room for memory's own model calls. */
  readonly mayCallModels: boolean;
}

export interface Found {
  /** The memories, best match first. */
  readonly memories: readonly FoundMemory[];
  /** Vector of the search, or null if the memories were found by text alone. */
  readonly vector: TextVector | null;
  readonly isReranked: boolean;
  /** False if memory is off and so nothing was searched. */
  readonly isEnabled: boolean;
  /** The project's token budget for the block. Null if it doesn't have one. */
  readonly budgetTokens: number | null;
  /** True if the deadline passed. In that case, the result has what we'd found by then. */
  readonly isLate: boolean;
}

/** Of longer messages we search for the end, because that's where people usually put their question. */
const maxQueryLength = 2_000;
/** Twice what's inserted without a budget. Some are near-duplicates and will be left out. */
const minCandidates = 20;
/**
 * With a budget, we insert as many memories as fit. To have enough of them, we search for the number that would fit if
 * each had this many tokens.
 */
const shortMemoryTokens = 25;
const maxCandidates = 150;
/**
 * How many memories the reranking model gets. This is more than we'd otherwise look at without a budget, because the
 * model can move up memories that the search ranks low.
 */
export const maxRerankedCandidates = 30;
/** Share of the deadline before we start a text search. Embedding a query locally takes a tenth of the shorter one. */
const textSearchDelay = { withoutVector: 0.25, withVector: 0.5 };
/**
 * The fraction of the deadline that has to be left to start reranking. If we started it later, we'd pay for a result
 * that we couldn't use, and its timeout would count against the vendor.
 */
const minRerankTime = 0.1;

/** The result of a search that found no memories. */
export const nothing: Found = {
  ...{ memories: [], vector: null, isReranked: false },
  ...{ isEnabled: true, budgetTokens: null, isLate: false },
};

/** Builds the part of a query that the request alone determines. */
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
      // `embed` has recorded the error already. Search by text.
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
    // `rerank` records its own errors. If it fails, keep the order of the search.
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
