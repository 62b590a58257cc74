/**
 * Finds memories relevant to a user message and formats them as one block for the prompt (docs/api/reference.md#memory-rules).
 *
 * Never fails and never exceeds the deadline. The text search runs while the embedding is computed: its result is used when the vector is
 * late or fails; when the database is late too, the call continues without memories.
 */

import type { Caller } from '../../core/call.ts';
import { withTimeout } from '../../core/time-limit.ts';
import type { Logger } from '../../observability/logger.ts';
import type { TextVector } from '../text/vectors.ts';
import { formatRecallBlock, type RecalledMemory } from './recall-block.ts';

export interface MemoryQuery {
  readonly projectId: string;
  /** Null searches the whole project. */
  readonly subject: string | null;
  readonly text: string;
  /** Null searches by text only. */
  readonly vector: TextVector | null;
  readonly limit: number;
  /** Statement timeout. */
  readonly timeoutMs: number;
}

export interface RecallDeps {
  readonly isEnabled: (projectId: string) => boolean | Promise<boolean>;
  /** Resolves to null without a route for embeddings. May reject (a ceiling of the key is reached) or never settle. */
  readonly embedFor: (caller: Caller, timeoutMs: number) => (text: string) => Promise<TextVector | null>;
  /** Best first, without memories excluded from recall. */
  readonly findMemories: (query: MemoryQuery) => Promise<readonly RecalledMemory[]>;
  readonly deadlineMs: () => number;
  readonly logger: Pick<Logger, 'warn'>;
}

export interface RecallRequest {
  readonly callId: string;
  readonly caller: Caller;
  readonly projectSlug: string;
  readonly subject: string | null;
  /** The last user message. */
  readonly text: string;
  /** False when the caller's ceilings leave no budget for an embedding. */
  readonly mayEmbed: boolean;
}

export interface Recalled {
  readonly block: string;
  readonly itemIds: readonly string[];
  /** Distinct subjects of the items. */
  readonly subjects: readonly string[];
}

export type Recall = (request: RecallRequest) => Promise<Recalled | null>;

/** Limit of a search query. The end of a long message is kept, because that is where users put the question. */
const maxQueryLength = 2_000;
const maxMemories = 10;

export function createRecall({ isEnabled, embedFor, findMemories, deadlineMs, logger }: RecallDeps): Recall {
  return async ({ callId, caller, projectSlug, subject, text, mayEmbed }) => {
    const { projectId } = caller;
    const timeoutMs = deadlineMs();
    const query = text.slice(-maxQueryLength).toWellFormed();
    let textMatches: readonly RecalledMemory[] = [];

    const find = (vector: TextVector | null): Promise<readonly RecalledMemory[]> =>
      findMemories({ projectId, subject, text: query, vector, limit: 2 * maxMemories, timeoutMs });
    const search = async (): Promise<readonly RecalledMemory[]> => {
      if (!(await isEnabled(projectId))) return [];
      const textSearch = find(null).then((memories) => {
        textMatches = memories;
        return memories;
      });
      textSearch.catch(() => undefined); // Awaited below unless the vector search succeeds.
      // The embedding call records its own error.
      const vector = mayEmbed ? await embedFor(caller, timeoutMs)(query).catch(() => null) : null;
      return vector ? find(vector).catch(() => textSearch) : textSearch;
    };
    try {
      return toRecalled(await withTimeout(search(), timeoutMs, () => textMatches));
    } catch (err) {
      logger.warn({ call: callId, project: projectSlug, err }, 'recall failed; continuing without memories');
      return null;
    }
  };
}

function toRecalled(memories: readonly RecalledMemory[]): Recalled | null {
  const { block, used } = formatRecallBlock(memories, maxMemories);
  if (used.length === 0) return null;
  const subjects = used.flatMap(({ subject }) => (subject === null ? [] : [subject]));
  return { block, itemIds: used.map(({ id }) => id), subjects: [...new Set(subjects)] };
}
