/**
 * Searches memories and conversations by text and, if the project has a route for embeddings, by vector. If `embed`
 * fails or takes too long, we continue by text only.
 */
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { withTimeout } from '../../core/time-limit.ts';
import type { Database } from '../../db/database.ts';
import { databaseOf } from '../../db/query-slots.ts';
import type { ConversationSummary } from '../conversations/list-conversations.ts';
import { hasAtMost, optionalSubject, shortList, storableText, withDefault } from '../items/item-schemas.ts';
import { type Item, itemKinds } from '../records/item-record.ts';
import { tokenizeForQuery } from '../text/lexemes.ts';
import { cutSnippet } from '../text/snippet.ts';
import { type TextVector, toVectorParameter } from '../text/vectors.ts';
import { reembedOnModelChange } from '../triggers/embedding-runs.ts';
import { findNamedTimes } from './named-times.ts';
import { searchStatement } from './search-query.ts';

const maxQueryLength = 2_000;

/** The body of a search. Unknown fields are ignored, and an empty list selects everything. */
export const searchRequestSchema = z.object({
  query: storableText
    .refine((stored) => stored !== '' && hasAtMost(stored, maxQueryLength), `must have 1 to ${maxQueryLength} characters`)
    .meta({ minLength: 1, maxLength: maxQueryLength, pattern: String.raw`[^\s\0]` }),
  subject: optionalSubject,
  limit: withDefault(z.int().min(1).max(50), 10).describe('by default 10'),
  kinds: withDefault(shortList(z.enum(itemKinds), 20), []).describe('kinds of memories to search, by default all'),
  include: withDefault(shortList(z.enum(['memories', 'episodes']), 20), []).describe('what to search, by default both'),
  min_score: withDefault(z.number().min(0).max(1), 0),
});

export type SearchRequest = z.output<typeof searchRequestSchema>;

/** Embeds a text. Resolves to null if the project has no route for embeddings. May reject, or never settle. */
export type EmbedText = (text: string) => Promise<TextVector | null>;

export interface SearchOptions {
  readonly projectId: string;
  readonly embed: EmbedText;
  /** How long we wait for a vector before we continue without one. */
  readonly embedTimeoutMs: number;
  readonly queryTimeoutMs: number;
  /** True to leave out memories with two `wrong` ratings, like recall does. */
  readonly recalledOnly?: boolean;
}

export interface MemoryMatch {
  readonly item: Item;
  /** The score of the match, from 0 to 1. */
  readonly score: number;
  readonly matchedBy: readonly ('vector' | 'text')[];
  readonly parts: {
    /** Cosine similarity, or null if no vectors were compared. */
    readonly similarity: number | null;
    /** How much of the query the text contains. Rare words count more. */
    readonly terms: number;
    /**
     * The bonus if the text was written at a time that the query mentions. `neighbours` is the bonus if other texts of
     * the same conversation match the query too.
     */
    readonly time: number;
    readonly neighbours: number;
    /** How much votes have raised or lowered the score. */
    readonly ratings: number;
  };
}

export interface EpisodeMatch extends Pick<ConversationSummary, 'id' | 'title' | 'subject' | 'startedAt' | 'lastTurnAt'> {
  readonly snippet: string;
  readonly score: number;
}

export interface SearchResult {
  readonly vector: boolean;
  readonly memories: readonly MemoryMatch[];
  readonly episodes: readonly EpisodeMatch[];
}

export function createSearch({ database }: { readonly database: Database }) {
  /**
   * Caches the model with which we last checked a project's vectors. Searches that use the same model skip the check
   * until the entry expires.
   */
  const checkedModels = new LRUCache<string, string>({ max: 10_000, ttl: 60_000 });
  const checkModel = async (projectId: string, { model }: TextVector, timeoutMs: number): Promise<void> => {
    if (checkedModels.get(projectId) === model) return;
    await databaseOf(database, projectId).transaction((tx) => reembedOnModelChange(tx, projectId, model), limitTime(timeoutMs));
    checkedModels.set(projectId, model);
  };
  return async (request: SearchRequest, options: SearchOptions): Promise<SearchResult> => {
    const { query, subject, limit, kinds, include, min_score: minScore } = request;
    const times = findNamedTimes(query, new Date());
    const isIncluded = (part: 'memories' | 'episodes'): boolean => include.length === 0 || include.includes(part);
    // `embed` has already recorded the error, so just search by text.
    const embedding = options.embed(query).catch(() => null);
    const vector = await withTimeout(embedding, options.embedTimeoutMs, () => null);
    const variant = { dims: vector?.values.length ?? null, hasSubject: subject !== null, recalledOnly: options.recalledOnly ?? false };
    const find = <Row>(of: 'memories' | 'episodes'): Promise<Row[]> => {
      if (!isIncluded(of)) return Promise.resolve([]);
      const values = [
        options.projectId,
        subject,
        tokenizeForQuery(query),
        limit,
        minScore,
        // conversations don't have a kind
        of === 'memories' && kinds.length > 0 ? kinds : null,
        times.map(({ since }) => since),
        times.map(({ until }) => until),
        ...(vector ? [toVectorParameter(vector.values), vector.model] : []),
      ];
      return databaseOf(database, options.projectId).transaction(
        (tx) => tx.query<Row>(searchStatement({ of, ...variant }), values),
        sessionSettings(of, options.queryTimeoutMs),
      );
    };
    // Run both statements at the same time, on two connections. They take about equally long.
    const [memories, episodes] = await Promise.all([find<MemoryRow>('memories'), find<EpisodeRow>('episodes')]);
    if (vector) await checkModel(options.projectId, vector, options.queryTimeoutMs);
    return {
      vector: vector !== null,
      memories: memories.map(toMemory),
      episodes: episodes.map(({ text, ...row }) => ({ ...row, snippet: cutSnippet(text, query) })),
    };
  };
}

/**
 * pgvector's `hnsw.ef_search`. We build the index of memories with better parameters, so it needs a lower value than
 * the index of conversations (docs/benchmarks-scale.md#vector-search).
 */
const efSearch = { memories: 200, episodes: 400 };

/**
 * JIT is off, because compiling the query takes longer than running it. `iterative_scan` scans the vector index until
 * enough rows match.
 */
function sessionSettings(of: 'memories' | 'episodes', timeoutMs: number): string {
  return `set local jit = off; ${limitTime(timeoutMs)};
    set local hnsw.iterative_scan = relaxed_order; set local hnsw.ef_search = ${efSearch[of]}`;
}

const limitTime = (timeoutMs: number): string => `set local statement_timeout = ${Math.ceil(timeoutMs)}`;

type ScoreParts = MemoryMatch['parts'];

interface MemoryRow extends Item, ScoreParts {
  readonly score: number;
  readonly isNear: boolean;
}

interface EpisodeRow extends Omit<EpisodeMatch, 'snippet'> {
  readonly text: string;
}

function toMemory({ score, isNear, similarity, terms, time, neighbours, ratings, ...item }: MemoryRow): MemoryMatch {
  const matchedBy = [...(isNear ? (['vector'] as const) : []), ...(terms > 0 ? (['text'] as const) : [])];
  return { item, score, matchedBy, parts: { similarity, terms, time, neighbours, ratings } };
}
