/**
 * Explains recorded statements. This tells us the nodes of their plans, how many rows they read, and whether they scan
 * a large table sequentially without a good reason.
 */
import { readFile } from 'node:fs/promises';

/** @typedef {{ text: string, values: (string | Buffer | null)[], settings: string[] }} Statement */
/** @typedef {{ text: string, ms: number, rows: number, nodes: string[], scans: string[], error?: string }} Plan */

/** Matches tables that grow with each call, message or passage. */
const largeTables = /^(calls|attempts|call_texts|parts|conversation_parts|conversations|memory_passages|memory_items)(_|$)/;
/**
 * We ignore scans of fewer rows than this, and scans of tables and partitions that don't have more rows. Reading a
 * small table is often faster than using its index, even if it happens several times.
 */
const smallScan = 5_000;
/** `duplicate key value`. The service has already executed the insert, so this is what we expect when we repeat it. */
const uniqueViolation = '23505';

/** Sequential scans that are fine, with the reason. `part` is a part of the statement. */
export const allowedScans = [
  { part: 'ts_stat', reason: 'samples the newest passages of a project, once a day' },
  { part: 'where not shares_texts limit 10000', reason: 'reads at most 10,000 prompts that an older version stored' },
  { part: 'select distinct model from calls', reason: 'reprice without models reads every call of its window' },
];

/**
 * Reads the statements that were written to the file after byte `from`.
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

/** Binary parameters are buffers, and JSON.stringify turns those into objects. Turn them back into buffers. */
const reviveBuffer = (/** @type {string} */ _, /** @type {any} */ value) => (value?.type === 'Buffer' ? Buffer.from(value.data) : value);

/** If a statement takes longer than this, we explain it only once for each set of values. */
const slowMs = 3_000;
/** @type {Map<string, Plan>} */
const slowPlans = new Map();

/**
 * Explains each distinct statement once. We roll it back afterwards, because `explain analyze` really executes it.
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
      // We want the plan that the service gets, so turn off JIT as the service does (src/db/pool.ts).
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
 * Finds what's wrong with the plans. We report sequential scans of large tables unless `allowedScans` has a reason for
 * them, and statements that we couldn't explain.
 * @param {readonly Plan[]} plans
 */
export const findProblems = (plans) =>
  plans.flatMap(({ text, scans, error }) => {
    if (error) return [`${error}: ${text.slice(0, 160)}`];
    return scans.length > 0 && !allowedScans.some(({ part }) => text.includes(part)) ? [`${scans.join(', ')}: ${text.slice(0, 160)}`] : [];
  });
