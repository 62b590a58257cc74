/**
 * Builds the hourly aggregates in `usage_cells` (migration 0037) in the background.
 *
 * We start with past hours that are marked as outdated, and then do their days. After that, we go on with the time
 * before there were aggregates, one day at a time and the latest first. We remove the mark of an hour before we read
 * its calls. If another call is stored in the meantime, the hour gets a new mark.
 *
 * Nobody has to wait for this. As long as an hour is outdated, figures are computed from its call rows.
 */
import { minIdAt } from '../../core/ids.ts';
import { dayMs, hourMs } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { tryLockGlobal } from '../../db/locks.ts';
import { attemptMeasures, callMeasures, type Histogram, type Measure } from '../sums.ts';

/**
 * How many hours we build per transaction. Erasures have to wait for the transaction, so we don't start another hour
 * after `maxWorkMs`.
 */
const maxHours = { server: 6, embedded: 1 };
const maxWorkMs = 500;
/**
 * The number of calls per statement, which takes about two seconds. It's lower for the embedded database, because each
 * of its statements blocks the event loop.
 */
const maxCalls = { server: 200_000, embedded: 2_000 };
/**
 * Each transaction that makes an hour outdated adds a mark. Once an hour has more marks than this, we merge them into
 * one.
 */
const maxNotes = 50;
/**
 * After the end of an hour, we wait this long before we build its aggregates, so that most of its calls have been
 * stored. For each call that's stored even later, we have to build the hour again. We use the database's clock.
 */
const margin = `interval '5 minutes'`;

/** Resolves with true if there's nothing left to do, or if another process is already at work. */
export async function buildAggregates(database: Database, max = maxCalls[database.kind]): Promise<boolean> {
  return database.transaction(async (tx) => {
    if (!(await tryLockGlobal(tx, 'usage'))) return true;
    await mergeNotes(tx);
    if (await buildHours(tx, maxHours[database.kind], max)) return false;
    if (await buildDay(tx)) return false;
    return !(await noteOlderDay(tx));
  });
}

/**
 * Merges marks of outdated hours. Each transaction that stores calls adds a mark, so an hour can have a hundred
 * thousand, and readers would have to go through all of them.
 */
async function mergeNotes(tx: Queries): Promise<void> {
  await tx.query(
    `with repeated as (
       select project_id, span, start from usage_outdated group by project_id, span, start having count(*) >= $1::integer
     ), removed as (
       delete from usage_outdated o using repeated
        where o.project_id = repeated.project_id and o.span = repeated.span and o.start = repeated.start
       returning o.project_id, o.span, o.start
     )
     insert into usage_outdated (project_id, span, start) select distinct project_id, span, start from removed`,
    [maxNotes],
  );
}

async function buildHours(tx: Queries, max: number, callsOfPart: number): Promise<boolean> {
  const startedAt = performance.now();
  const hours = await tx.query<{ projectId: string; start: Date }>(
    `with latest as (
       select project_id, start from usage_outdated
        where span = 'hour' and start < now() - interval '1 hour' - ${margin} order by start desc limit 1
     )
     select distinct o.project_id as "projectId", o.start
       from usage_outdated o join latest on o.project_id = latest.project_id and o.start <= latest.start
      where o.span = 'hour' and o.start >= date_trunc('day', latest.start, 'UTC')
      order by o.start desc limit $1::integer`,
    [max],
  );
  const [latest] = hours;
  if (!latest) return false;
  // PostgreSQL assumes that a range of ids contains only one row. It would therefore choose nested loops, and compare
  // every call of the hour with every attempt.
  await tx.query('set local enable_nestloop = off');
  for (const [index, { projectId, start }] of hours.entries()) {
    if (index > 0 && performance.now() - startedAt > maxWorkMs) break;
    await buildHour(tx, projectId, start, callsOfPart);
  }
  const day = new Date(Math.floor(latest.start.getTime() / dayMs) * dayMs);
  await tx.query(`insert into usage_outdated (project_id, span, start) values ($1::uuid, 'day', $2::timestamptz)`, [latest.projectId, day]);
  return true;
}

async function buildHour(tx: Queries, projectId: string, start: Date, callsOfPart: number): Promise<void> {
  const values = [projectId, start];
  await tx.query(`delete from usage_outdated where project_id = $1::uuid and span = 'hour' and start = $2::timestamptz`, values);
  await tx.query(
    `delete from usage_cells
      where project_id = $1::uuid and scope in (${scopes}) and span = 'hour' and start = $2::timestamptz`,
    values,
  );
  const [from, to] = [minIdAt(start.getTime()), minIdAt(start.getTime() + hourMs)];
  // Build the aggregates of a busy hour in several steps. Different steps may insert aggregates with the same
  // attributes, so readers have to add them up.
  const parts = await tx.query<{ id: string }>(
    `select id from (
       select id, row_number() over (order by id) as number from calls where project_id = $1::uuid and id >= $2::uuid and id < $3::uuid
     ) as numbered
      where number % $4::integer = 0 order by id`,
    [projectId, from, to, callsOfPart],
  );
  const borders = [from, ...parts.map(({ id }) => id), to];
  for (const insert of insertHours('c.project_id = $1::uuid and')) {
    for (const [index, after] of borders.slice(1).entries()) await tx.query(insert, [projectId, borders[index], after]);
  }
}

/**
 * Builds the aggregates of the latest outdated day. Skips days that aren't over yet, and days that still have outdated
 * hours.
 */
async function buildDay(tx: Queries): Promise<boolean> {
  const [day] = await tx.query<{ projectId: string; start: Date }>(
    `select d.project_id as "projectId", d.start
       from usage_outdated d
      where d.span = 'day' and d.start < now() - interval '1 day'
        and not exists (
          select 1 from usage_outdated h
           where h.project_id = d.project_id and h.span = 'hour' and h.start >= d.start and h.start < d.start + interval '24 hours'
        )
      order by d.start desc limit 1`,
  );
  if (!day) return false;
  const values = [day.projectId, day.start];
  await tx.query(`delete from usage_outdated where project_id = $1::uuid and span = 'day' and start = $2::timestamptz`, values);
  await tx.query(
    `delete from usage_cells
      where project_id = $1::uuid and scope in (${scopes}) and span = 'day' and start = $2::timestamptz`,
    values,
  );
  await tx.query(
    insertDays(
      `usage_cells
        where project_id = $1::uuid and scope in (${scopes}) and span = 'hour'
          and start >= $2::timestamptz and start < $2::timestamptz + interval '24 hours'`,
    ),
    values,
  );
  return true;
}

/**
 * Finds the latest day with calls but without aggregates, and marks its hours as outdated so that they're built next.
 */
async function noteOlderDay(tx: Queries): Promise<boolean> {
  const [fill] = await tx.query<{ at: number | null; isDone: boolean }>(
    `select case when isfinite(filled_from) then extract(epoch from filled_from)::float8 * 1000 end as at, filled_from = '-infinity' as "isDone"
       from usage_cells_fill`,
  );
  if (!fill || fill.isDone) return false;
  const [older] = await tx.query<{ startedAt: Date }>(
    'select started_at as "startedAt" from calls where $1::uuid is null or id < $1::uuid order by id desc limit 1',
    [fill.at === null ? null : minIdAt(fill.at)],
  );
  if (!older) {
    await tx.query(`update usage_cells_fill set filled_from = '-infinity'`);
    return false;
  }
  const from = Math.floor(older.startedAt.getTime() / dayMs) * dayMs;
  await tx.query(
    `insert into usage_outdated (project_id, span, start)
     select distinct project_id, 'hour', date_trunc('hour', started_at, 'UTC') from calls where id >= $1::uuid and id < $2::uuid`,
    [minIdAt(from), minIdAt(from + dayMs)],
  );
  await tx.query('update usage_cells_fill set filled_from = $1::timestamptz', [new Date(from)]);
  return true;
}

const scopes = `'project', 'key', 'source', 'agent', 'provider'`;

const attributes = ['model', 'status', 'code', 'outcome', 'route', 'cache', 'failed_over', 'priced'];
const ownerAttributes = ['model', 'status', 'code', 'outcome'];
const owners = { key: 'key_prefix', source: 'source', agent: 'agent_id' } as const;

const summed = [
  ...(['calls', 'errors', 'unpriced', 'cost_nanos', 'tokens_input', 'tokens_cached_input', 'tokens_cache_write', 'tokens_output'] as const),
  ...(['cache_hits', 'cache_lookups', 'failovers'] as const),
] as const;
const columns = ['project_id, scope, span, start, name, attempted', ...attributes, ...summed, 'durations, first_chunks'].join(', ');

const sums = (measures: Readonly<Record<Measure | Histogram, string>>): string =>
  [...summed.map((name) => `sum(${measures[name]})`), histogram(measures.durations), histogram(measures.first_chunks)].join(', ');

/**
 * Returns SQL for a histogram. If there are only a few calls, the histogram lists each of them. Otherwise it has a
 * count for each slot.
 */
function histogram(time: string): string {
  const elements = `array_agg(usage_slot(${time}) + 1024) filter (where ${time} is not null)`;
  return `case when cardinality(${elements}) > 64 then usage_add_histograms(${elements}, null) else ${elements} end`;
}

/**
 * Returns statements that build hourly aggregates from calls with ids from $2 (inclusive) to $3 (exclusive).
 *
 * @param condition an SQL condition on `calls c`, followed by `and`
 */
export function insertHours(condition: string): readonly string[] {
  const grouped = (group: readonly string[]): string => `(project_id, start, ${group.join(', ')})`;
  const inPeriod = (id: string): string => `${id} >= $2::uuid and ${id} < $3::uuid`;
  const hour = `date_trunc('hour', c.started_at, 'UTC')`;
  const sets = [attributes, ...Object.values(owners).map((owner) => [owner, ...ownerAttributes])];
  const isOf = (owner: string): string => `grouping(${owner}) = 0`;
  return [
    `insert into usage_cells (${columns})
     select c.project_id,
            case ${Object.entries(owners)
              .map(([scope, owner]) => `when ${isOf(owner)} then '${scope}'`)
              .join(' ')} else 'project' end,
            'hour', start, case ${Object.values(owners)
              .map((owner) => `when ${isOf(owner)} then ${owner}`)
              .join(' ')} end, null,
            ${attributes.join(', ')}, ${sums({ ...callMeasures, failovers: 'c.failed_over::integer' })}
       from (
         select c.*, ${hour} as start, second.n is not null as failed_over, c.cost_nanos is not null as priced
           from calls c
           left join attempts second on second.call_id = c.id and second.n = 2 and ${inPeriod('second.call_id')}
          where ${condition} ${inPeriod('c.id')}
       ) as c
      group by grouping sets (${sets.map(grouped).join(', ')})`,
    `insert into usage_cells (${columns})
     select c.project_id, 'provider', 'hour', ${hour}, a.provider, a.provider || '/' || a.model, c.model, c.status, c.code, c.outcome,
            null, null, null, null,
            ${sums(attemptMeasures)}
       from calls c
       join attempts a on a.call_id = c.id and ${inPeriod('a.call_id')}
      where ${condition} ${inPeriod('c.id')}
      group by c.project_id, 4, a.provider, a.model, c.model, c.status, c.code, c.outcome`,
  ];
}

/**
 * Returns a statement that builds daily aggregates from hourly ones.
 * @param hours the SQL after `from`, which selects the hourly aggregates
 */
export function insertDays(hours: string): string {
  const merged = (column: string): string => `usage_add_histograms(usage_concat(${column}), null)`;
  return `
    insert into usage_cells (${columns})
    select project_id, scope, 'day', date_trunc('day', start, 'UTC'), name, attempted, ${attributes.join(', ')},
           ${summed.map((name) => `sum(${name})`).join(', ')}, ${merged('durations')}, ${merged('first_chunks')}
      from ${hours}
     group by project_id, scope, 4, name, attempted, ${attributes.join(', ')}`;
}
