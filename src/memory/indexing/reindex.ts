/** Rebuilds the lexemes of texts that were indexed by an older version of the tokenizer. */
import type { Database } from '../../db/database.ts';
import { lexemesSql, tokenizeForIndex, tokenizerVersion } from '../text/lexemes.ts';

/** Keep this small. PGlite runs statements on the event loop, so each one has to be short. */
const batchSize = 100;

const reindexTargets = [
  { table: 'memory_passages', column: 'text', id: 'bigint' },
  { table: 'memory_facts', column: 'fact', id: 'uuid' },
] as const;

/** Rebuilds one batch of outdated rows. Returns the number of rows in it, or 0 if there's nothing left to do. */
export async function reindexOutdated(database: Database): Promise<number> {
  for (const target of reindexTargets) {
    const reindexed = await reindexTarget(database, target);
    if (reindexed > 0) return reindexed;
  }
  return 0;
}

function reindexTarget(database: Database, { table, column, id }: (typeof reindexTargets)[number]): Promise<number> {
  return database.transaction(async (tx) => {
    const rows = await tx.query<{ id: number | string; text: string }>(
      `select id, ${column} as text from ${table} where words_version < ${tokenizerVersion} order by id limit ${batchSize} for update skip locked`,
    );
    if (rows.length === 0) return 0;
    await tx.query(
      `update ${table} as old set lexemes = ${lexemesSql('new.tokens')}, words_version = ${tokenizerVersion}
         from unnest($1::${id}[], $2::text[]) as new (id, tokens)
        where old.id = new.id`,
      [rows.map((row) => row.id), rows.map(({ text }) => tokenizeForIndex(text))],
    );
    return rows.length;
  });
}
