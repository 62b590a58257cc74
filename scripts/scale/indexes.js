/**
 * Drops indexes and constraints before we fill a table, and creates them again afterwards. It would take much longer to
 * update the indexes for each row.
 */

/** @typedef {import('pg').Pool} Pool */
/** @typedef {{ table: string, name: string, definition: string, kind: 'key' | 'index' | 'reference' }} Dropped */

/**
 * @param {Pool} pool
 * @param {readonly string[]} tables
 * @returns {Promise<Dropped[]>} in the order in which they have to be recreated
 */
export async function dropIndexes(pool, tables) {
  const { rows: constraints } = await pool.query(
    `select conrelid::regclass::text as table, conname as name, pg_get_constraintdef(oid) as definition,
            case contype when 'f' then 'reference' else 'key' end as kind
       from pg_constraint
      where (contype in ('p', 'u') and conrelid = any($1::regclass[]))
         or (contype = 'f' and (conrelid = any($1::regclass[]) or confrelid = any($1::regclass[])) and conparentid = 0)`,
    [tables],
  );
  const { rows: indexes } = await pool.query(
    `select indrelid::regclass::text as table, indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition, 'index' as kind
       from pg_index where indrelid = any($1::regclass[]) and not exists (select 1 from pg_constraint where conindid = indexrelid and contype in ('p', 'u'))`,
    [tables],
  );
  const order = ['key', 'index', 'reference'];
  const dropped = [...constraints, ...indexes].toSorted((one, other) => order.indexOf(one.kind) - order.indexOf(other.kind));
  for (const { table, name, kind } of dropped.toReversed()) {
    await pool.query(kind === 'index' ? `drop index ${name}` : `alter table ${table} drop constraint ${name}`);
  }
  return dropped;
}

/** @param {readonly Dropped[]} dropped */
export const toStatements = (dropped) =>
  ['key', 'index', 'reference'].map((step) =>
    dropped
      .filter(({ kind }) => kind === step)
      .map(({ table, name, definition, kind }) =>
        kind === 'index' ? definition : `alter table ${table} add constraint ${name} ${definition}`,
      ),
  );
