/**
 * Computes vectors for passages that don't have one of the project's current model yet. Usually these are new passages,
 * but after the model has changed, it's all of them.
 *
 * Each batch is stored separately, so an interrupted run resumes where it stopped. We don't keep a transaction open
 * while we wait for the vendor, and if a passage has been erased by the time we store its vector, the update just
 * doesn't find it.
 */
import type { EmbedProgress } from '../../../workflows/contract.ts';
import type { Clock } from '../../core/time.ts';
import type { Database } from '../../db/database.ts';
import { toBatches } from '../../db/row-batches.ts';
import { toVectorParameter } from '../text/vectors.ts';
import { requestEmbedding } from '../triggers/embedding-runs.ts';
import { refreshWordStatistics } from './word-statistics.ts';

export interface EmbedPassagesOptions {
  readonly database: Database;
  readonly clock: Clock;
  /** Returns the model for the project's vectors, or null if it has no route for embeddings. */
  readonly getModel: (projectId: string) => Promise<string | null>;
  /** Returns a vector for each text, in the same order, or null for texts that can't be embedded. */
  readonly embed: (
    projectId: string,
    texts: readonly string[],
  ) => Promise<{ model: string; vectors: readonly (readonly number[] | null)[] }>;
  /** Checks whether `embed` failed because the vendor rejected one of the texts. */
  readonly isTextRejected: (error: unknown) => boolean;
}

/**
 * Limits the texts and characters in a request. Vendors would accept far more. But the local embedder processes one
 * text at a time and needs up to 0.2 s for 2,000 characters, or three times as long on a busy machine. With larger
 * requests, ten projects at the same time would all run into timeouts.
 */
const batchSize = 32;
const maxBatchCharacters = 8_000;
/**
 * An activity makes at most this many requests. If there's more to do, it returns `more` and the workflow schedules
 * another one.
 */
const maxBatchesPerRun = 20;

interface PendingPassage {
  readonly id: number;
  readonly text: string;
}

export function createPassageEmbedder({ database, clock, getModel, embed, isTextRejected }: EmbedPassagesOptions) {
  /**
   * Embeds the project's pending passages. Stops before the next request if `signal` aborts, and rethrows errors of
   * `embed`. Either way, the batches that have been stored so far are kept.
   */
  return async (projectId: string, run: number, signal: AbortSignal): Promise<EmbedProgress> => {
    let passages = 0;
    const model = await getModel(projectId);
    for (let batch = 0; batch < maxBatchesPerRun; batch += 1) {
      signal.throwIfAborted();
      const pending = model === null ? [] : await findPending(projectId, model);
      if (pending.length === 0) {
        const end = await finish(projectId, run, model);
        if (end !== 'more') return { kind: 'done', passages, ...(end && { reason: end }) };
        continue;
      }
      for (const part of toBatches(pending, ({ text }) => text.length, maxBatchCharacters)) {
        signal.throwIfAborted();
        await embedBatch(projectId, part);
      }
      passages += pending.length;
    }
    return { kind: 'more', passages };
  };

  /**
   * Finds passages without a vector of the current model. Comparing with `<` and `>` instead of `<>` lets PostgreSQL
   * use the index, so that it skips all rows that already have such a vector.
   */
  function findPending(projectId: string, model: string): Promise<PendingPassage[]> {
    return database.query<PendingPassage>(
      `select id, text from (
         (select id, text from memory_passages where project_id = $1::uuid and embedding_model is null order by id limit $3::integer)
         union all
         (select id, text from memory_passages
           where project_id = $1::uuid and (embedding_model < $2::text or embedding_model > $2::text) limit $3::integer)
       ) as pending
       limit $3::integer`,
      [projectId, model, batchSize],
    );
  }

  /** Bisects a batch until we know which text the vendor rejects. That text is marked so that it isn't sent again. */
  async function embedBatch(projectId: string, pending: readonly PendingPassage[]): Promise<void> {
    try {
      const texts = pending.map(({ text }) => text);
      const { model, vectors } = await embed(projectId, texts);
      await store(pending, model, vectors);
    } catch (error) {
      if (!isTextRejected(error)) throw error;
      if (pending.length === 1) return store(pending, (await getModel(projectId)) ?? '', [null]);
      const middle = Math.ceil(pending.length / 2);
      await embedBatch(projectId, pending.slice(0, middle));
      await embedBatch(projectId, pending.slice(middle));
    }
  }

  async function store(pending: readonly PendingPassage[], model: string, vectors: readonly (readonly number[] | null)[]): Promise<void> {
    await database.query(
      `update memory_passages as passage
          set embedding = new.vector::halfvec, embedding_dims = vector_dims(new.vector::halfvec), embedding_model = $3::text
         from unnest($1::bigint[], $2::text[]) as new (id, vector)
        where passage.id = new.id`,
      [pending.map(({ id }) => id), vectors.map(toVectorParameter), model],
    );
  }

  /**
   * Ends the run, or returns `more` if there are new passages. No passage can slip through, because writers hold a
   * shared lock on the row until they commit (see `embedding-runs.ts`).
   */
  async function finish(projectId: string, run: number, model: string | null): Promise<EmbedProgress['reason'] | 'more'> {
    const end = await database.transaction(async (tx) => {
      const [row] = await tx.query<{ run: number }>(`select run from memory_embeddings where project_id = $1::uuid for update`, [
        projectId,
      ]);
      // A different run number means that a newer run has taken over. A missing row means that the project was deleted.
      if (row?.run !== run) return 'superseded';
      const [waiting] = await tx.query(
        `select 1 from memory_passages where project_id = $1::uuid and embedding_model is null and $2::text is not null limit 1`,
        [projectId, model],
      );
      if (waiting) return 'more';
      await tx.query(
        `update memory_embeddings set active = false, routable = $2::text is not null, model = $2::text where project_id = $1::uuid`,
        [projectId, model],
      );
      return model === null ? 'no_route' : undefined;
    });
    // A route may have been added since we read `model`. No run was started for it, because this one was still active,
    // so we have to start one now.
    if (end === 'no_route' && (await getModel(projectId)) !== null)
      await database.transaction((tx) => requestEmbedding(tx, projectId, { force: true }));
    if (end !== 'more') await refreshWordStatistics(database, projectId, clock.now());
    return end;
  }
}
