/**
 * Finds memories for a user message before a deadline, and returns the best result that it has by then.
 *
 * The search by vector starts when the query is embedded. The search by text is its substitute: it starts when the embedding fails, or when
 * nothing has been found in a quarter of the deadline, so that most recalls make one search. What is found is reranked where the project has
 * a model for it; when that is late or fails, the order of the search is kept.
 */
import type { Caller } from '../../core/call.ts';
import { withTimeout } from '../../core/time-limit.ts';
import type { Item } from '../records/item-record.ts';
import type { TextVector } from '../text/vectors.ts';

/** A match of the search. */
export interface FoundMemory {
  readonly item: Item;
  /** 0 to 1. */
  readonly score: number;
  readonly matchedBy: readonly ('vector' | 'text')[];
  /** What decided its place, by name; null: not known. */
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
  /** Also finds memories that their ratings exclude from recall. */
  readonly includesRatedWrong: boolean;
  /** Statement timeout. */
  readonly timeoutMs: number;
}

/** Who is charged for a call of memory, and in what time it must respond. */
export interface CallOptions {
  readonly caller: Caller;
  readonly timeoutMs: number;
  /** Part of a call of the caller, which takes the slot of its key. */
  readonly isPartOfCall: boolean;
}

/** Returns the relevance of each text to the query, null where the model gave none. May reject or never settle. */
export type Rerank = (query: string, texts: readonly string[], options: CallOptions) => Promise<readonly (number | null)[]>;

export interface FinderDeps {
  readonly isEnabled: (projectId: string) => boolean | Promise<boolean>;
  /** Resolves to null without a route for embeddings. May reject (a ceiling of the key is reached) or never settle. */
  readonly embed: (text: string, options: CallOptions) => Promise<TextVector | null>;
  /** Resolves to null when the project has no model that reranks. */
  readonly findReranker: (projectId: string) => Promise<Rerank | null>;
  /** Best first. */
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
  /** Time until the deadline of the call, of which recall takes at most half; null without one. */
  readonly remainingMs: number | null;
  /** False when the caller's ceilings leave no budget for calls of memory. */
  readonly mayCallModels: boolean;
}

export interface Found {
  /** Best first. */
  readonly memories: readonly FoundMemory[];
  /** Of the search that found them; null: they were found by text only. */
  readonly vector: TextVector | null;
  readonly isReranked: boolean;
  /** False when memory is off: nothing is searched. */
  readonly isEnabled: boolean;
  /** The deadline passed: this is what had been found by then. */
  readonly isLate: boolean;
}

/** Limit of a search query. The end of a long message is kept, because that is where users put the question. */
const maxQueryLength = 2_000;
/** Twice what is inserted, since near-duplicates are left out. */
const maxCandidates = 20;
/** A model that reranks also finds what the search ranks low. */
export const maxRerankedCandidates = 30;
/** Part of the deadline. A local model embeds a query in a tenth of this. */
const textSearchDelay = 0.25;
/** Part of the deadline that must be left: a later call would be charged without a use, and its timeout would count against the vendor. */
const minRerankTime = 0.1;

/** The result when nothing is found. */
export const nothing: Found = { memories: [], vector: null, isReranked: false, isEnabled: true, isLate: false };

/** The part of a query that `request` decides. */
export function toMemoryQuery({ caller, subject, text }: FindRequest): Pick<MemoryQuery, 'projectId' | 'subject' | 'text'> {
  return { projectId: caller.projectId, subject, text: text.slice(-maxQueryLength).toWellFormed() };
}

/** Rejects when the database fails and nothing has been found. */
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
    // As for the embedding.
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
