/** Makes the words anew by which stored text is found, where an older version of ours made them in its own way. */
import type { Database } from '../../db/database.ts';
import { lexemesOf, wordsToIndex, wordsVersion } from '../text/lexemes.ts';

/** A statement on the embedded database holds up the event loop (decisions 1). */
const rowsAtOnce = 100;

const places = [
  { table: 'memory_passages', column: 'text', id: 'bigint' },
  { table: 'memory_facts', column: 'fact', id: 'uuid' },
] as const;

/** Some rows; returns how many, 0 when none is left. */
export async function indexAgain(database: Database): Promise<number> {
  for (const place of places) {
    const done = await indexPlace(database, place);
    if (done > 0) return done;
  }
  return 0;
}

function indexPlace(database: Database, { table, column, id }: (typeof places)[number]): Promise<number> {
  return database.transaction(async (tx) => {
    const rows = await tx.query<{ id: number | string; text: string }>(
      `select id, ${column} as text from ${table} where words_version < ${wordsVersion} order by id limit ${rowsAtOnce} for update skip locked`,
    );
    if (rows.length === 0) return 0;
    await tx.query(
      `update ${table} as old set lexemes = ${lexemesOf('new.words')}, words_version = ${wordsVersion}
         from unnest($1::${id}[], $2::text[]) as new (id, words)
        where old.id = new.id`,
      [rows.map((row) => row.id), rows.map(({ text }) => wordsToIndex(text))],
    );
    return rows.length;
  });
}
