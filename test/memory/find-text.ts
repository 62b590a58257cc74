/** Searches every column of every row in the database. */
import type { Database } from '../../src/db/database.ts';
import { unpackExtras } from '../../src/memory/conversations/packed-extras.ts';
import { unpackText } from '../../src/memory/conversations/packed-text.ts';

/** Returns the tables that contain `text` in any form, i.e. unchanged, case-folded, stemmed or as bytes. */
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
  const isIn = (texts: readonly string[]): boolean => texts.some((each) => each.toLowerCase().includes(text.toLowerCase()));
  if (isIn(await readPromptTexts(database))) tables.push('prompt_texts');
  if (isIn(await readPackedTexts(database))) tables.push('parts');
  return [...new Set(tables)].sort();
}

/** Returns the tables of the schema. A partitioned table only counts once. */
export async function listTables(database: Database): Promise<string[]> {
  const rows = await database.query<{ name: string }>(
    `select relname as name from pg_class
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
      order by relname`,
  );
  return rows.map(({ name }) => name);
}

/**
 * Returns the whole database as one text, with bytes in hexadecimal. This is a single statement, because under load
 * each statement has to wait for those of all writers.
 */
export async function dumpDatabase(database: Database): Promise<string> {
  const tables = (await listTables(database)).map((table) => `select whole::text as text from ${table} as whole`);
  const rows = await database.query<{ text: string }>(tables.join(' union all '));
  return [...rows.map(({ text }) => text), ...(await readPromptTexts(database)), ...(await readPackedTexts(database))].join('\n');
}

/** Returns the texts of prompts of one project or of all projects. */
export async function readTextsOfPrompts(database: Database, projectId: string | null = null): Promise<string[]> {
  return [...(await readPromptTexts(database, projectId)), ...(await readPackedTexts(database, projectId))];
}

async function readPromptTexts(database: Database, projectId: string | null = null): Promise<string[]> {
  const rows = await database.query<{ content: Uint8Array; isCompressed: boolean }>(
    `select content, is_compressed as "isCompressed" from prompt_texts where $1::uuid is null or project_id = $1::uuid`,
    [projectId],
  );
  return rows.map(unpackText);
}

async function readPackedTexts(database: Database, projectId: string | null = null): Promise<string[]> {
  const packed = await database.query<{ packed: Uint8Array }>(
    `select packed from parts where packed is not null and ($1::uuid is null or project_id = $1::uuid)`,
    [projectId],
  );
  return packed.flatMap((part) => unpackExtras(part.packed).map(({ text }) => text));
}
