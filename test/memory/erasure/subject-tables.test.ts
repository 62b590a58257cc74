/**
 * Compares the list of subject tables with the schema. If a migration adds a column for subject data, it has to update
 * the list.
 */
import { expect, test } from '@jest/globals';
import { bySubject, subjectTables } from '../../../src/memory/erasure/subject-tables.ts';
import { describeDatabases } from '../../db/databases.ts';
import { listTables } from '../find-text.ts';

/** These have no subject, so there's code in `erase.ts` to erase them. */
const manuallyErased: readonly string[] = ['parts', 'prompt_texts', 'released_parts', 'memory_words'];

/**
 * Columns and tables that never contain subject data, with the reasons. The list has all columns whose type could hold
 * subject data (text, lists, JSON, bytes) in tables whose rows aren't deleted.
 */
const notSubjectData: Readonly<Record<string, string>> = {
  projects: 'of the deployment',
  virtual_keys: 'of the deployment',
  key_ceilings: 'of the deployment',
  applications: 'of the deployment',
  catalog_models: 'of the deployment',
  model_prices: 'of the deployment',
  memory_settings: 'of the deployment',
  schema_migrations: 'of the deployment',
  limit_counters: 'names of keys and applications',
  memory_embeddings: 'the name of a model',
  memory_batches: 'of closed sets',
  provider_breakers: 'names of providers, states of a closed set',
  attempt_errors: 'the message is removed with `calls.subject_sha256`, by a trigger; identifiers of vendors and systems',
  refused_calls: 'names of keys, applications and models, and codes of a closed set',
  content_rule_hits: 'hashes of rules, and ids of calls',
  refused_call_counts: 'prefixes of keys, and reasons of a closed set',
  attempts: 'names of providers and models, outcomes of a closed set',
  videos: 'media calls have no subject; vendor-made names and URLs, no prompt',
  erasures: 'the tombstone: the SHA-256 of the subject, and who asked',
  audit_log: 'ids, times, names and settings of the deployment, and counts',
  people: 'who operate the deployment; not subjects',
  members: 'of a closed set',
  personal_tokens: 'of the people who operate the deployment',
  sessions: 'of the people who operate the deployment',
  sign_in_links: 'hashes',
  sign_in_failures: 'hashes',
  erasure_runs: 'ids, until their runs are deleted',
  usage_increments: 'names of tasks change with `calls.task_id`, by a trigger',
  usage_rollups: 'as above',
  usage_cells: 'those with `calls.agent_id` are deleted with it, by a trigger',
  usage_outdated: 'hours',
  'calls.key_prefix': 'of the key',
  'calls.source': 'the application that the cost is charged to',
  'calls.route': 'of a closed set',
  'calls.model_asked': 'the name of a model',
  'calls.model': 'the name of a model',
  'calls.code': 'of a closed set',
  'calls.outcome': 'of a closed set',
  'calls.cache': 'of a closed set',
  'calls.plan': 'names of models and fixed reasons',
  'calls.units': 'counts',
};

const erased = new Set([...subjectTables.filter(({ set }) => set === undefined).map(({ table }) => table), ...manuallyErased]);
const emptied = new Set(
  subjectTables.flatMap(({ table, set = '' }) => [...set.matchAll(/(\w+) = null/g)].map(([, column]) => `${table}.${column}`)),
);

describeDatabases('the list of tables with subject data', (database) => {
  test('lists every column that can hold data about a subject', async () => {
    const columns = await database().query<{ table: string; column: string; type: string }>(
      `select table_name as "table", column_name as "column", data_type as type from information_schema.columns
        where table_schema = 'public' and table_name = any ($1::text[])`,
      [await listTables(database())],
    );
    const ofText = columns.filter(({ type }) => !/^(?:uuid|bigint|integer|smallint|boolean|timestamp with time zone)$/.test(type));
    expect(ofText.length).toBeGreaterThan(50);
    const unknown = ofText
      .filter(({ table }) => !erased.has(table))
      .map(({ table, column }) => ({ table, name: `${table}.${column}` }))
      .filter(({ table, name }) => !emptied.has(name) && notSubjectData[table] === undefined && notSubjectData[name] === undefined)
      .map(({ name }) => name);
    expect(unknown).toEqual([]);
  });

  test('erases a subject from every table that stores subjects', async () => {
    const named = await database().query<{ table: string }>(
      `select distinct table_name as "table" from information_schema.columns
        where table_schema = 'public' and column_name like '%subject%' and table_name = any ($1::text[])`,
      [await listTables(database())],
    );
    // Exceptions are the tombstone, and calls, whose rows are kept without the subject.
    const left = named.map(({ table }) => table).filter((table) => !erased.has(table));
    expect(left.sort()).toEqual(['calls', 'erasures']);
    expect(emptied).toContain('calls.subject_sha256');
  });

  test('lists only tables and columns that exist', async () => {
    const tables = new Set(await listTables(database()));
    const named = [
      ...erased,
      ...subjectTables.map(({ table }) => table),
      ...Object.keys(notSubjectData).map((name) => name.split('.')[0] ?? ''),
    ];
    expect(named.filter((table) => !tables.has(table))).toEqual([]);
  });

  test('identifies rows with subject data by keys that are unique across projects', async () => {
    const indexes = await database().query<{ table: string; columns: string[] }>(
      `select relation.relname as "table", array_agg(attribute.attname::text) as columns
         from pg_index index
         join pg_class relation on relation.oid = index.indrelid
         join pg_attribute attribute on attribute.attrelid = relation.oid and attribute.attnum = any (index.indkey::smallint[])
        where index.indisunique and index.indpred is null and relation.relname = any ($1::text[])
        group by index.indexrelid, relation.relname`,
      [subjectTables.map(({ table }) => table)],
    );
    for (const { table, key } of subjectTables) {
      const columns = key.split(', ');
      const isUnique = indexes.some((index) => index.table === table && index.columns.every((column) => columns.includes(column)));
      expect([table, isUnique || columns.includes('project_id')]).toEqual([table, true]);
    }
  });

  test('only matches rows of the given project and subject', () => {
    for (const { table, where } of subjectTables) {
      expect([table, where(bySubject)]).toEqual([table, expect.stringMatching(/project_id = \$1::uuid and subject(?:_sha256)? = \$2::/)]);
    }
  });
});
