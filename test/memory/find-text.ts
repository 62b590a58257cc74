/** Searches a whole database, every column of every row, as nobody but a test does. */
import type { Database } from '../../src/db/database.ts';

/** Tables that hold `text` anywhere, also folded, stemmed to it or as bytes. */
export async function findTablesHolding(database: Database, text: string): Promise<string[]> {
  const tables: string[] = [];
  for (const table of await listTables(database)) {
    const [match] = await database.query(
      `select 1 from ${table} as whole
        where position(lower($1::text) in lower(whole::text)) > 0 or position($2::text in whole::text) > 0 limit 1`,
      [text, Buffer.from(text).toString('hex')],
    );
    if (match) tables.push(table);
  }
  return tables;
}

/** Those of ours; a partitioned table once. */
export async function listTables(database: Database): Promise<string[]> {
  const rows = await database.query<{ name: string }>(
    `select relname as name from pg_class
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
      order by relname`,
  );
  return rows.map(({ name }) => name);
}

/** All that the database holds, as one text; bytes are in hexadecimal. */
export async function dumpDatabase(database: Database): Promise<string> {
  const texts: string[] = [];
  for (const table of await listTables(database)) {
    const rows = await database.query<{ text: string }>(`select whole::text as text from ${table} as whole`);
    texts.push(...rows.map(({ text }) => text));
  }
  return texts.join('\n');
}
