/** Makes the words anew by which stored text is found, where an older version of ours made them in its own way. */
import type { Database } from '../../db/database.ts';
import { lexemesSql, tokenizeForIndex, tokenizerVersion } from '../text/lexemes.ts';

/** A statement on the embedded database holds up the event loop (decisions 1). */
const batchSize = 100;

const reindexTargets = [
  { table: 'memory_passages', column: 'text', id: 'bigint' },
  { table: 'memory_facts', column: 'fact', id: 'uuid' },
] as const;

/** Some rows; returns how many, 0 when none is left. */
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
      `update ${table} as old set lexemes = ${lexemesSql('new.words')}, words_version = ${tokenizerVersion}
         from unnest($1::${id}[], $2::text[]) as new (id, words)
        where old.id = new.id`,
      [rows.map((row) => row.id), rows.map(({ text }) => tokenizeForIndex(text))],
    );
    return rows.length;
  });
}
