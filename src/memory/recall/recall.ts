/**
 * What a project remembers that may help with a user's message (specification 4.8 rule 5), as one block for the prompt.
 *
 * Never fails and never waits beyond the deadline. Words are searched while the vector is still being made: when the vector is late or cannot
 * be made, what was found by words is used; when the database is late too, the call goes on without memories (lessons 42).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Caller } from '../../core/call.ts';
import type { TextVector } from '../text/vectors.ts';
import { formatRecallBlock, type RecalledMemory } from './recall-block.ts';

export interface MemoryQuery {
  readonly projectId: string;
  /** Null: all of the project. */
  readonly subject: string | null;
  readonly text: string;
  /** Null searches by words alone. */
  readonly vector: TextVector | null;
  readonly limit: number;
  /** Longest statement. */
  readonly timeoutMs: number;
}

export interface RecallDeps {
  readonly isEnabled: (projectId: string) => boolean | Promise<boolean>;
  /** A vector is null where the project has no route for embeddings. May fail (a ceiling of the caller's key is reached), may hang. */
  readonly embedFor: (caller: Caller, timeoutMs: number) => (text: string) => Promise<TextVector | null>;
  /** Best first, without what is left out of recall. */
  readonly findMemories: (query: MemoryQuery) => Promise<readonly RecalledMemory[]>;
  readonly deadlineMs: () => number;
  readonly logger: { warn(fields: Readonly<Record<string, unknown>>, message: string): void };
}

export interface RecallRequest {
  readonly caller: Caller;
  readonly subject: string | null;
  /** What the user said last. */
  readonly text: string;
  /** False: the caller's ceilings leave no room for it; words alone are looked for. */
  readonly mayEmbed: boolean;
}

export interface Recalled {
  readonly block: string;
  readonly itemIds: readonly string[];
  /** Whom the items are about, none twice. */
  readonly subjects: readonly string[];
}

export type Recall = (request: RecallRequest) => Promise<Recalled | null>;

/** As much as search takes (shapes 4); what is asked stands at the end of a long message. */
const maxQueryLength = 2_000;
const maxMemories = 10;

export function createRecall({ isEnabled, embedFor, findMemories, deadlineMs, logger }: RecallDeps): Recall {
  return async ({ caller, subject, text, mayEmbed }) => {
    const { projectId } = caller;
    const timeoutMs = deadlineMs();
    const query = text.slice(-maxQueryLength).toWellFormed();
    const timer = new AbortController();
    let textMatches: readonly RecalledMemory[] = [];

    const find = (vector: TextVector | null): Promise<readonly RecalledMemory[]> =>
      findMemories({ projectId, subject, text: query, vector, limit: 2 * maxMemories, timeoutMs });
    const search = async (): Promise<readonly RecalledMemory[]> => {
      if (!(await isEnabled(projectId))) return [];
      const textSearch = find(null).then((memories) => {
        textMatches = memories;
        return memories;
      });
      textSearch.catch(() => undefined); // It is asked for below, unless the vector has found something.
      // Why it failed is recorded with its call.
      const vector = mayEmbed ? await embedFor(caller, timeoutMs)(query).catch(() => null) : null;
      return vector ? find(vector).catch(() => textSearch) : textSearch;
    };
    const afterDeadline = async (): Promise<readonly RecalledMemory[]> => {
      await sleep(timeoutMs, null, { signal: timer.signal }).catch(() => null);
      return textMatches;
    };
    try {
      return toRecalled(await Promise.race([search(), afterDeadline()]));
    } catch (error) {
      logger.warn({ project: projectId, error }, 'recall failed; the call goes on without memories');
      return null;
    } finally {
      timer.abort();
    }
  };
}

function toRecalled(memories: readonly RecalledMemory[]): Recalled | null {
  const { block, used } = formatRecallBlock(memories, maxMemories);
  if (used.length === 0) return null;
  const subjects = used.flatMap(({ subject }) => (subject === null ? [] : [subject]));
  return { block, itemIds: used.map(({ id }) => id), subjects: [...new Set(subjects)] };
}
