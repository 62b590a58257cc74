/**
 * Search over memories and conversations: by words and, where the project has a route for embeddings, by vectors (shapes 4).
 *
 * It knows no model: `embed` is handed in. One that fails, or is later than its limit, costs a search its vectors and nothing else.
 */
import { z } from 'zod';
import { toPostgresText } from '../../core/postgres-text.ts';
import { formatTime } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { subjectSchema } from '../items/item-schemas.ts';
import { type Item, itemKinds, toItemJson } from '../records/item-record.ts';
import { tokenizeForQuery } from '../text/lexemes.ts';
import { cutSnippet } from '../text/snippet.ts';
import { type TextVector, toVectorLiteral } from '../text/vectors.ts';
import { reembedOnModelChange } from '../triggers/embedding-runs.ts';
import { searchStatement } from './search-query.ts';

const maxQueryLength = 2_000;

/** Unknown members are ignored; an empty list means all. */
export const searchRequestSchema = z.object({
  query: z
    .string()
    .transform((value) => toPostgresText(value).trim())
    .refine(
      (trimmed) => trimmed !== '' && (trimmed.length <= maxQueryLength || [...trimmed].length <= maxQueryLength),
      `must have 1 to ${maxQueryLength} characters`,
    ),
  subject: subjectSchema.nullish().transform((value) => value ?? null),
  limit: z.int().min(1).max(50).default(10),
  kinds: z.array(z.enum(itemKinds)).max(20).default([]),
  include: z
    .array(z.enum(['memories', 'episodes']))
    .max(20)
    .default([]),
  min_score: z.number().min(0).max(1).default(0),
});

export type SearchRequest = z.output<typeof searchRequestSchema>;

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

export interface MemoryMatch {
  readonly item: Item;
  /** 0 to 1. */
  readonly score: number;
  readonly matchedBy: readonly ('vector' | 'text')[];
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
  /** Vectors took part. */
  readonly vector: boolean;
  readonly memories: readonly MemoryMatch[];
  readonly episodes: readonly EpisodeMatch[];
}

export type Search = (request: SearchRequest, options: SearchOptions) => Promise<SearchResult>;

export function createSearch({ database }: { readonly database: Database }): Search {
  return async (request, options) => {
    const { query, subject, limit, kinds, include, min_score: minScore } = request;
    const isIncluded = (part: 'memories' | 'episodes'): boolean => include.length === 0 || include.includes(part);
    const vector = await embedWithTimeout(options, query);
    const find = <Row>(tx: Queries, of: 'memories' | 'episodes'): Promise<Row[]> =>
      tx.query<Row>(searchStatement({ of, dims: vector?.values.length ?? null, recalledOnly: options.recalledOnly ?? false }), [
        options.projectId,
        subject,
        tokenizeForQuery(query),
        limit,
        minScore,
        // Kinds are of memories: conversations have none to be chosen by.
        of === 'memories' && kinds.length > 0 ? kinds : null,
        ...(vector ? [toVectorLiteral(vector.values), vector.model] : []),
      ]);
    return database.transaction(async (tx) => {
      await tx.query(sessionSettings, [String(options.queryLimitMs)]);
      const memories = isIncluded('memories') ? await find<MemoryRow>(tx, 'memories') : [];
      const episodes = isIncluded('episodes') ? await find<EpisodeRow>(tx, 'episodes') : [];
      if (vector) await reembedOnModelChange(tx, options.projectId, vector.model);
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

interface EpisodeRow extends Omit<EpisodeMatch, 'snippet'> {
  readonly text: string;
}

function toMemory({ score, isNear, hasWords, ...item }: MemoryRow): MemoryMatch {
  return { item, score, matchedBy: [...(isNear ? (['vector'] as const) : []), ...(hasWords ? (['text'] as const) : [])] };
}

/** Why it failed is recorded with its call. */
async function embedWithTimeout({ embed, embedLimitMs }: SearchOptions, text: string): Promise<TextVector | null> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), embedLimitMs);
  });
  try {
    return await Promise.race([embed(text).catch(() => null), timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/** Shapes 4. */
export function toSearchJson({ vector, memories, episodes }: SearchResult): Record<string, unknown> {
  return {
    vector,
    memories: memories.map(({ item, score, matchedBy }) => ({ item: toItemJson(item), score: roundScore(score), matched_by: matchedBy })),
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
