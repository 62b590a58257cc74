/**
 * Searches memories and conversations by text and, if the project has a route for embeddings, by vector.
 *
 * If `embed` fails or times out, the search continues by text only.
 */
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { withTimeout } from '../../core/time-limit.ts';
import type { Database, Queries } from '../../db/database.ts';
import { databaseOf } from '../../db/query-slots.ts';
import { hasAtMost, optionalSubject, storableText } from '../items/item-schemas.ts';
import { type Item, itemKinds } from '../records/item-record.ts';
import { tokenizeForQuery } from '../text/lexemes.ts';
import { cutSnippet } from '../text/snippet.ts';
import { type TextVector, toVectorParameter } from '../text/vectors.ts';
import { reembedOnModelChange } from '../triggers/embedding-runs.ts';
import { findNamedTimes } from './named-times.ts';
import { searchStatement } from './search-query.ts';

const maxQueryLength = 2_000;

/** Unknown fields are ignored, and an empty list means all. */
export const searchRequestSchema = z.object({
  query: storableText.refine((stored) => stored !== '' && hasAtMost(stored, maxQueryLength), `must have 1 to ${maxQueryLength} characters`),
  subject: optionalSubject,
  limit: z.int().min(1).max(50).default(10),
  kinds: z.array(z.enum(itemKinds)).max(20).default([]),
  include: z
    .array(z.enum(['memories', 'episodes']))
    .max(20)
    .default([]),
  min_score: z.number().min(0).max(1).default(0),
});

export type SearchRequest = z.output<typeof searchRequestSchema>;

/** Embeds a text. Returns null if the project has no route for embeddings. May reject or never settle. */
export type EmbedText = (text: string) => Promise<TextVector | null>;

export interface SearchOptions {
  readonly projectId: string;
  readonly embed: EmbedText;
  /** If there's no vector after this time, the search continues without one. */
  readonly embedTimeoutMs: number;
  /** The statement timeout. */
  readonly queryTimeoutMs: number;
  /** Excludes memories with two `wrong` ratings. */
  readonly recalledOnly?: boolean;
}

export interface MemoryMatch {
  readonly item: Item;
  /** From 0 to 1. */
  readonly score: number;
  readonly matchedBy: readonly ('vector' | 'text')[];
  readonly parts: {
    /** The cosine of the vectors, or null if we didn't compare any. */
    readonly similarity: number | null;
    /** The share of the query's words, weighted by rarity. */
    readonly terms: number;
    /**
     * How much the score increases because the query mentions the memory's time. `neighbours` is the same for other
     * memories of its conversation.
     */
    readonly time: number;
    readonly neighbours: number;
  };
}

export interface EpisodeMatch {
  readonly id: string;
  readonly title: string | null;
  readonly subject: string | null;
  readonly snippet: string;
  readonly score: number;
  readonly startedAt: Date;
  readonly lastTurnAt: Date;
}

export interface SearchResult {
  /** Whether we searched by vector. */
  readonly vector: boolean;
  readonly memories: readonly MemoryMatch[];
  readonly episodes: readonly EpisodeMatch[];
}

export function createSearch({ database }: { readonly database: Database }) {
  /** For each project, the model for which a search has recently checked that the stored vectors are up to date. */
  const checkedModels = new LRUCache<string, string>({ max: 10_000, ttl: 60_000 });
  return async (request: SearchRequest, options: SearchOptions): Promise<SearchResult> => {
    const { query, subject, limit, kinds, include, min_score: minScore } = request;
    const times = findNamedTimes(query, new Date());
    const isIncluded = (part: 'memories' | 'episodes'): boolean => include.length === 0 || include.includes(part);
    // The embedding call records its own errors.
    const embedding = options.embed(query).catch(() => null);
    const vector = await withTimeout(embedding, options.embedTimeoutMs, () => null);
    const variant = { dims: vector?.values.length ?? null, hasSubject: subject !== null, recalledOnly: options.recalledOnly ?? false };
    const find = <Row>(tx: Queries, of: 'memories' | 'episodes'): Promise<Row[]> =>
      tx.query<Row>(searchStatement({ of, ...variant }), [
        options.projectId,
        subject,
        tokenizeForQuery(query),
        limit,
        minScore,
        // Conversations don't have a kind.
        of === 'memories' && kinds.length > 0 ? kinds : null,
        times.map(({ since }) => since),
        times.map(({ until }) => until),
        ...(vector ? [toVectorParameter(vector.values), vector.model] : []),
      ]);
    return databaseOf(database, options.projectId).transaction(async (tx) => {
      const memories = isIncluded('memories') ? await find<MemoryRow>(tx, 'memories') : [];
      const episodes = isIncluded('episodes') ? await find<EpisodeRow>(tx, 'episodes') : [];
      if (vector && checkedModels.get(options.projectId) !== vector.model) {
        await reembedOnModelChange(tx, options.projectId, vector.model);
        checkedModels.set(options.projectId, vector.model);
      }
      return {
        vector: vector !== null,
        memories: memories.map(toMemory),
        episodes: episodes.map(({ text, ...row }) => ({ ...row, snippet: cutSnippet(text, query) })),
      };
    }, sessionSettings(options.queryTimeoutMs));
  };
}

/**
 * We turn off JIT because compiling takes longer than the query. The vector index is scanned iteratively until enough
 * rows match. Among a million vectors, it found 87 % of the nearest ten with an `ef_search` of 100, and 94 % with 400
 * (docs/benchmarks-scale.md).
 */
function sessionSettings(timeoutMs: number): string {
  return `set local jit = off; set local statement_timeout = ${Math.ceil(timeoutMs)};
    set local hnsw.iterative_scan = relaxed_order; set local hnsw.ef_search = 400`;
}

interface MemoryRow extends Item {
  readonly score: number;
  readonly isNear: boolean;
  readonly similarity: number | null;
  readonly terms: number;
  readonly time: number;
  readonly neighbours: number;
}

interface EpisodeRow extends Omit<EpisodeMatch, 'snippet'> {
  readonly text: string;
}

function toMemory({ score, isNear, similarity, terms, time, neighbours, ...item }: MemoryRow): MemoryMatch {
  const matchedBy = [...(isNear ? (['vector'] as const) : []), ...(terms > 0 ? (['text'] as const) : [])];
  return { item, score, matchedBy, parts: { similarity, terms, time, neighbours } };
}
