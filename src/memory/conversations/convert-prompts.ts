/**
 * Converts prompts that an older release stored. That release kept system prompts and tool results with each call,
 * while we store them as parts that calls share.
 *
 * We only start a day after the upgrade. Until then you can still go back to the older release, which couldn't show
 * converted prompts.
 */
import { type Clock, dayMs } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { lockConversations } from '../../db/locks.ts';
import { selectRows } from '../../db/row-batches.ts';
import type { PositionedExtra } from '../../dialects/prompt/prompt.ts';
import type { Logger } from '../../observability/logger.ts';
import { toHashedExtra } from './chain.ts';
import { toExtraParts } from './masked-prompt.ts';
import { type CallChains, storeParts } from './store-parts.ts';

/** Keep this small. PGlite runs statements on the event loop, so each one has to be short. */
const batchSize = 50;
/**
 * A batch converts at most this many bytes of system prompts and tool results, unless it only consists of a single
 * call.
 */
const batchBytes = 1024 * 1024;
const logEvery = 10_000;

interface OldPrompt {
  readonly callId: string;
  readonly projectId: string;
  readonly extras: readonly PositionedExtra[];
  readonly createdAt: Date;
}

export function createPromptConverter({
  database,
  clock,
  logger,
}: {
  readonly database: Database;
  readonly clock: Clock;
  readonly logger: Logger;
}) {
  let converted = 0;
  /**
   * Converts one batch and returns the number of prompts in it. Returns 0 if there's nothing left to convert, or if it
   * hasn't been a day since the upgrade.
   */
  return async (): Promise<number> => {
    if (!(await isDue(database, clock.now()))) return 0;
    // Find the project before we start the transaction. Otherwise the transaction would hold a lock on the table while
    // it waits for the project's lock, and could deadlock with the drain if another process changes the table at that
    // moment.
    const projectId = await findProject(database);
    const count = projectId === null ? 0 : await database.transaction((tx) => convertBatch(tx, projectId));
    if (count > 0 && Math.floor((converted + count) / logEvery) > Math.floor(converted / logEvery)) {
      logger.info({ rows: converted + count }, 'converting prompts from an older release');
    }
    converted += count;
    if (count === 0 && converted > 0) {
      logger.info({ rows: converted }, 'converted prompts from an older release');
      converted = 0;
    }
    return count;
  };
}

async function isDue(queries: Queries, now: number): Promise<boolean> {
  const [row] = await queries.query<{ isDue: boolean }>(
    `select coalesce(max(applied_at) < $1::timestamptz, true) as "isDue" from schema_migrations where name like '%prompt_texts'`,
    [new Date(now - dayMs)],
  );
  return row?.isDue ?? true;
}

async function findProject(queries: Queries): Promise<string | null> {
  const [first] = await queries.query<{ projectId: string }>(
    `select project_id as "projectId" from call_texts where not shares_texts order by call_id limit 1`,
  );
  return first?.projectId ?? null;
}

async function convertBatch(tx: Queries, projectId: string): Promise<number> {
  // Retention and erasures need this lock too, so they can't delete prompts or parts in the meantime.
  await lockConversations(tx, projectId);
  const prompts = await tx.query<OldPrompt>(
    `select call_id as "callId", project_id as "projectId", extras, created_at as "createdAt"
       from (select call_id, project_id, extras, created_at,
                    sum(pg_column_size(extras)) over (order by call_id) - pg_column_size(extras) as preceding
               from (select * from call_texts where not shares_texts order by call_id limit ${batchSize}) oldest) sized
      where project_id = $1::uuid and preceding <= ${batchBytes}
      order by call_id`,
    [projectId],
  );
  const texts = prompts.map(toChains);
  await storeParts(tx, texts);
  // Another process has deleted the prompts that we found. Return 1, because with 0 the caller would think that nothing
  // is left to convert.
  if (texts.length === 0) return 1;
  const { text, values } = selectRows(
    [
      ['call_id', 'uuid', ({ callId }) => callId],
      ['context_hash', 'bytea', ({ context }) => context.at(-1)?.hash ?? null],
      ['extras_hash', 'bytea', ({ extras }) => extras.at(-1)?.hash ?? null],
    ],
    texts,
  );
  await tx.query(
    `update call_texts as old set extras = '[]', shares_texts = true, context_hash = new.context_hash, extras_hash = new.extras_hash
       from (${text}) as new where old.call_id = new.call_id`,
    values,
  );
  return texts.length;
}

function toChains({ callId, projectId, extras, createdAt }: OldPrompt): CallChains & { readonly callId: string } {
  const placed = extras.map(({ position, ...extra }) => ({ position, extra: toHashedExtra(extra) }));
  return { callId, projectId, startedAt: createdAt.getTime(), parts: [], promptLength: 0, ...toExtraParts(placed) };
}

/** Counts the prompts that still have to be converted. The count is exact up to 10,000 and an estimate beyond that. */
export async function countOldPrompts(queries: Queries): Promise<number> {
  const [row] = await queries.query<{ counted: number; estimated: number }>(
    `select (select count(*)::integer from (select 1 from call_texts where not shares_texts limit 10000) as old) as counted,
            (select reltuples::float8 from pg_class where relname = 'call_texts_to_convert') as estimated`,
  );
  if (!row || row.counted < 10_000) return row?.counted ?? 0;
  return Math.max(row.counted, row.estimated);
}
