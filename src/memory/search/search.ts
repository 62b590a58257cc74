/**
 * Search over memories and conversations: by words and, where the project has a route for embeddings, by vectors (shapes 4).
 *
 * It knows no model: `embed` is handed in. One that fails, or is later than its limit, costs a search its vectors and nothing else.
 */
import { z } from 'zod';
import { makeStorable } from '../../core/postgres-text.ts';
import { formatTime } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { subjectInput } from '../items/item-schemas.ts';
import { type Item, itemJson, itemKinds } from '../records/item-record.ts';
import { wordsToFind } from '../text/lexemes.ts';
import { cutSnippet } from '../text/snippet.ts';
import { type TextVector, vectorLiteral } from '../text/vectors.ts';
import { noticeModel } from '../triggers/embedding-runs.ts';
import { searchStatement } from './search-query.ts';

const longestQuery = 2_000;

/** Unknown members are ignored; an empty list means all. */
export const searchBody = z.object({
  query: z
    .string()
    .transform((given) => makeStorable(given).trim())
    .refine(
      (kept) => kept !== '' && (kept.length <= longestQuery || [...kept].length <= longestQuery),
      `must have 1 to ${longestQuery} characters`,
    ),
  subject: subjectInput.nullish().transform((given) => given ?? null),
  limit: z.int().min(1).max(50).default(10),
  kinds: z.array(z.enum(itemKinds)).max(20).default([]),
  include: z
    .array(z.enum(['memories', 'episodes']))
    .max(20)
    .default([]),
  min_score: z.number().min(0).max(1).default(0),
});

export type SearchRequest = z.output<typeof searchBody>;

/** The vector of a text, and the model it is of; null where the project has no route for embeddings. May fail, may hang. */
export type EmbedText = (text: string) => Promise<TextVector | null>;

export interface SearchOptions {
  readonly projectId: string;
  readonly embed: EmbedText;
  /** What is left to the vector before the search goes on without it. */
  readonly embedLimitMs: number;
  /** Longest statement. */
  readonly queryLimitMs: number;
  /** Leaves out memories that are not recalled (two `wrong` ratings). */
  readonly recalledOnly?: boolean;
}

export interface FoundMemory {
  readonly item: Item;
  /** 0 to 1. */
  readonly score: number;
  readonly matchedBy: readonly ('vector' | 'text')[];
}

export interface FoundEpisode {
  readonly id: string;
  readonly title: string | null;
  readonly subject: string | null;
  readonly snippet: string;
  readonly score: number;
  readonly startedAt: Date;
  readonly lastTurnAt: Date;
}

export interface SearchResult {
  /** Vectors took part. */
  readonly vector: boolean;
  readonly memories: readonly FoundMemory[];
  readonly episodes: readonly FoundEpisode[];
}

export type Search = (request: SearchRequest, options: SearchOptions) => Promise<SearchResult>;

export function createSearch({ database }: { readonly database: Database }): Search {
  return async (request, options) => {
    const { query, subject, limit, kinds, include, min_score: leastScore } = request;
    const wanted = (part: 'memories' | 'episodes'): boolean => include.length === 0 || include.includes(part);
    const vector = await embedWithin(options, query);
    const find = <Row>(tx: Queries, of: 'memories' | 'episodes'): Promise<Row[]> =>
      tx.query<Row>(searchStatement({ of, dims: vector?.values.length ?? null, recalledOnly: options.recalledOnly ?? false }), [
        options.projectId,
        subject,
        wordsToFind(query),
        limit,
        leastScore,
        // Kinds are of memories: conversations have none to be chosen by.
        of === 'memories' && kinds.length > 0 ? kinds : null,
        ...(vector ? [vectorLiteral(vector.values), vector.model] : []),
      ]);
    return database.transaction(async (tx) => {
      await tx.query(sessionSettings, [String(options.queryLimitMs)]);
      const memories = wanted('memories') ? await find<MemoryRow>(tx, 'memories') : [];
      const episodes = wanted('episodes') ? await find<EpisodeRow>(tx, 'episodes') : [];
      if (vector) await noticeModel(tx, options.projectId, vector.model);
      return {
        vector: vector !== null,
        memories: memories.map(toMemory),
        episodes: episodes.map(({ text, ...row }) => ({ ...row, snippet: cutSnippet(text, query) })),
      };
    });
  };
}

/** Compiling the statement costs more than running it; an index of vectors is read on until enough rows are of the project. */
const sessionSettings = `select set_config('jit', 'off', true), set_config('statement_timeout', $1::text, true),
  set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', '100', true)`;

interface MemoryRow extends Item {
  readonly score: number;
  readonly isNear: boolean;
  readonly hasWords: boolean;
}

interface EpisodeRow extends Omit<FoundEpisode, 'snippet'> {
  readonly text: string;
}

function toMemory({ score, isNear, hasWords, ...item }: MemoryRow): FoundMemory {
  return { item, score, matchedBy: [...(isNear ? (['vector'] as const) : []), ...(hasWords ? (['text'] as const) : [])] };
}

/** Why it failed is recorded with its call. */
async function embedWithin({ embed, embedLimitMs }: SearchOptions, text: string): Promise<TextVector | null> {
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), embedLimitMs);
  });
  try {
    return await Promise.race([embed(text).catch(() => null), tooLate]);
  } finally {
    clearTimeout(timer);
  }
}

/** Shapes 4. */
export function searchJson({ vector, memories, episodes }: SearchResult): Record<string, unknown> {
  return {
    vector,
    memories: memories.map(({ item, score, matchedBy }) => ({ item: itemJson(item), score: roundScore(score), matched_by: matchedBy })),
    episodes: episodes.map(({ id, title, subject, snippet, score, startedAt, lastTurnAt }) => ({
      id,
      title,
      subject,
      snippet,
      score: roundScore(score),
      started_at: formatTime(startedAt.getTime()),
      last_turn_at: formatTime(lastTurnAt.getTime()),
    })),
  };
}

function roundScore(score: number): number {
  return Math.round(score * 10_000) / 10_000;
}
