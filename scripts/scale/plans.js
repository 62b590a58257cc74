/**
 * Explains recorded statements. Finds out which nodes their plans have, how many rows they read, and whether they scan
 * a large table sequentially without being listed as an exception.
 */
import { readFile } from 'node:fs/promises';

/** @typedef {{ text: string, values: (string | Buffer | null)[], settings: string[] }} Statement */
/** @typedef {{ text: string, ms: number, rows: number, nodes: string[], scans: string[], error?: string }} Plan */

/** Matches the tables that grow with calls, messages or passages. */
const largeTables = /^(calls|attempts|call_texts|parts|conversation_parts|conversations|memory_passages|memory_items)(_|$)/;
/**
 * We ignore scans that read fewer rows than this, and scans of tables and partitions that have fewer. PostgreSQL may
 * read a small table several times instead of using its index.
 */
const smallScan = 5_000;
/** The code of `duplicate key value`, which we get for an insert that the service has already executed. */
const uniqueViolation = '23505';

/** The sequential scans that we accept. `part` is a part of the statement's text. */
export const allowedScans = [
  { part: 'ts_stat', reason: 'samples the newest passages of a project, once a day' },
  { part: 'select distinct model from calls', reason: 'reprice without models reads every call of its window' },
];

/**
 * Reads the statements that were appended to the file after byte `from`.
 * @param {string} file
 * @param {number} from
 * @returns {Promise<{ statements: Statement[], end: number }>}
 */
export async function readStatements(file, from) {
  const bytes = await readFile(file);
  const end = bytes.lastIndexOf(10) + 1;
  const lines = bytes.subarray(from, end).toString().split('\n').filter(Boolean);
  return { statements: lines.map((line) => JSON.parse(line, reviveBuffer)), end: Math.max(from, end) };
}

/** JSON.stringify writes a buffer, i.e. a parameter in PostgreSQL's binary format, as an object. */
const reviveBuffer = (/** @type {string} */ _, /** @type {any} */ value) => (value?.type === 'Buffer' ? Buffer.from(value.data) : value);

/**
 * If a statement takes longer than this, we explain it only once for the same values and use that plan wherever it
 * comes up again.
 */
const slowMs = 3_000;
/** @type {Map<string, Plan>} */
const slowPlans = new Map();

/**
 * Explains each distinct statement once. `explain analyze` executes the statement, so we roll it back.
 * @param {import('pg').Client} client
 * @param {readonly Statement[]} statements
 */
export async function explainAll(client, statements) {
  /** @type {Plan[]} */
  const plans = [];
  const { rows: tables } = await client.query(
    `select oid::regclass::text as name from pg_class where relkind = 'r' and reltuples > $1 and relnamespace <> 'pg_catalog'::regnamespace`,
    [smallScan],
  );
  const large = new Set(tables.map(({ name }) => name).filter((name) => largeTables.test(name)));
  const distinct = new Map(statements.map((statement) => [statement.text.replaceAll(/\s+/g, ' '), statement]));
  for (const [text, { text: sql, values, settings }] of distinct) {
    if (!/^\s*(select|with|insert|update|delete|\()/i.test(sql) || /pg_notify|pg_advisory|pg_sleep|nextval/.test(sql)) continue;
    const key = `${text} ${JSON.stringify(values)}`;
    const known = slowPlans.get(key);
    if (known) {
      plans.push(known);
      continue;
    }
    try {
      await client.query('begin');
      for (const setting of settings) await client.query(setting);
      await client.query(`set local statement_timeout = '120s'`);
      // The service turns JIT off too (src/db/pool.ts).
      await client.query('set local jit = off');
      const { rows } = await client.query(`explain (analyze, buffers, format json) ${sql}`, values);
      const plan = { text: text.slice(0, 300), ...summarize(rows[0]['QUERY PLAN'][0], large) };
      plans.push(plan);
      if (plan.ms > slowMs) slowPlans.set(key, plan);
    } catch (error) {
      const hasRun = error instanceof Error && 'code' in error && error.code === uniqueViolation;
      if (!hasRun) plans.push({ text: text.slice(0, 300), ms: 0, rows: 0, nodes: [], scans: [], error: String(error) });
    } finally {
      await client.query('rollback');
    }
  }
  return plans;
}

/** @param {any} explained @param {ReadonlySet<string>} large the names of large tables */
function summarize(explained, large) {
  /** @type {Set<string>} */
  const nodes = new Set();
  /** @type {string[]} */
  const scans = [];
  let rows = 0;
  const visit = (/** @type {any} */ node) => {
    const type = String(node['Node Type']);
    const read =
      ((node['Actual Rows'] ?? 0) + (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0)) *
      (node['Actual Loops'] ?? 1);
    const relation = node['Relation Name'];
    if (relation) rows += read;
    if (/Seq Scan/.test(type) && large.has(relation) && read > smallScan) scans.push(`${relation} (${Math.round(read)} rows)`);
    if (!/^(Limit|Result|Append|Subquery Scan|CTE Scan|Function Scan|ModifyTable|Aggregate|Nested Loop|Values Scan|Unique)$/.test(type))
      nodes.add(/Scan/.test(type) ? `${type} ${withoutMonth(String(node['Index Name'] ?? relation ?? ''))}`.trim() : type);
    for (const child of node.Plans ?? []) visit(child);
  };
  visit(explained.Plan);
  return { ms: explained['Execution Time'] + explained['Planning Time'], rows: Math.round(rows), nodes: [...nodes], scans };
}

/** @param {string} name */
const withoutMonth = (name) => name.replace(/_(\d{4}_\d{2}|default)/, '');

/**
 * Returns the sequential scans of large tables that aren't in `allowedScans`, and the statements without a plan.
 * @param {readonly Plan[]} plans
 */
export const findProblems = (plans) =>
  plans.flatMap(({ text, scans, error }) => {
    if (error) return [`${error}: ${text.slice(0, 160)}`];
    return scans.length > 0 && !allowedScans.some(({ part }) => text.includes(part)) ? [`${scans.join(', ')}: ${text.slice(0, 160)}`] : [];
  });
