/**
 * Computes the vectors of a project's passages that have none of its model yet: new ones, and all of them after the model changed.
 *
 * Done in small steps, each stored by itself, so that a run that is cut goes on where it was. No transaction is open while a vendor is
 * asked. A passage that was erased meanwhile is not there to be written.
 */
import type { Clock } from '../../core/time.ts';
import type { Database } from '../../db/database.ts';
import { toVectorLiteral } from '../text/vectors.ts';
import { refreshWordStatistics } from './word-statistics.ts';

export interface EmbedPassagesOptions {
  readonly database: Database;
  readonly clock: Clock;
  /** Name of the model whose vectors the project has; null: no route for embeddings. */
  readonly getModel: (projectId: string) => Promise<string | null>;
  /** Vectors of that model in the order of `texts`, null for a text without one. */
  readonly embed: (
    projectId: string,
    texts: readonly string[],
  ) => Promise<{ model: string; vectors: readonly (readonly number[] | null)[] }>;
  /** Whether what `embed` threw is the fault of the texts. */
  readonly isRefusedText: (error: unknown) => boolean;
}

export type EmbedProgress = { readonly kind: 'done' } | { readonly kind: 'more' };

/** Texts of one request: far below what vendors take at once. */
const batchSize = 32;
/** After so many requests the run says how far it is, and is asked again. */
const maxBatchesPerRun = 20;

interface PendingPassage {
  readonly id: number;
  readonly text: string;
}

export function createPassageEmbedder({ database, clock, getModel, embed, isRefusedText }: EmbedPassagesOptions) {
  /** `signal` stops between two requests. Throws what `embed` throws; what was stored until then stays. */
  return async (projectId: string, run: number, signal: AbortSignal): Promise<EmbedProgress> => {
    const model = await getModel(projectId);
    for (let batch = 0; batch < maxBatchesPerRun; batch += 1) {
      signal.throwIfAborted();
      const pending = model === null ? [] : await findPending(projectId, model);
      if (pending.length === 0) {
        if (await finish(projectId, run, model)) return { kind: 'done' };
        continue;
      }
      await embedBatch(projectId, pending);
    }
    return { kind: 'more' };
  };

  /** The two ranges around the model's own rows, so that these are not read. */
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

  /** A text that the vendor refuses is found by halving, and marked so that it is not sent again. */
  async function embedBatch(projectId: string, pending: readonly PendingPassage[]): Promise<void> {
    try {
      const { model, vectors } = await embed(
        projectId,
        pending.map(({ text }) => text),
      );
      await store(pending, model, vectors);
    } catch (error) {
      if (!isRefusedText(error)) throw error;
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
      [pending.map(({ id }) => id), vectors.map((vector) => vector && toVectorLiteral(vector)), model],
    );
  }

  /** False: something was written in between. Writers hold the row shared until they commit (`embedding-runs.ts`). */
  async function finish(projectId: string, run: number, model: string | null): Promise<boolean> {
    const isFinished = await database.transaction(async (tx) => {
      const [row] = await tx.query<{ run: number }>(`select run from memory_embeddings where project_id = $1::uuid for update`, [
        projectId,
      ]);
      // Another run has taken over, or the project is gone: this one has nothing left to do.
      if (row?.run !== run) return true;
      const [waiting] = await tx.query(
        `select 1 from memory_passages where project_id = $1::uuid and embedding_model is null and $2::text is not null limit 1`,
        [projectId, model],
      );
      if (waiting) return false;
      await tx.query(
        `update memory_embeddings set active = false, routable = $2::text is not null, model = $2::text where project_id = $1::uuid`,
        [projectId, model],
      );
      return true;
    });
    if (isFinished) await refreshWordStatistics(database, projectId, clock.now());
    return isFinished;
  }
}
