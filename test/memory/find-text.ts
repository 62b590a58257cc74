/** Searches the whole database: every column of every row. */
import type { Database } from '../../src/db/database.ts';

/** Tables that contain `text` in any form: unchanged, case-folded, stemmed or as bytes. */
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

/** Tables of the schema; a partitioned table counts once. */
export async function listTables(database: Database): Promise<string[]> {
  const rows = await database.query<{ name: string }>(
    `select relname as name from pg_class
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
      order by relname`,
  );
  return rows.map(({ name }) => name);
}

/** The whole database as one text, with bytes in hexadecimal. One statement: under load, each waits for those of all writers. */
export async function dumpDatabase(database: Database): Promise<string> {
  const tables = (await listTables(database)).map((table) => `select whole::text as text from ${table} as whole`);
  const rows = await database.query<{ text: string }>(tables.join(' union all '));
  return rows.map(({ text }) => text).join('\n');
}
