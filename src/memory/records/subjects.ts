/**
 * Lists the end users about whom memory stores anything, and says what it stores about one of them. Every query takes a
 * limited number of steps in an index, so an end user with a million memories takes no longer than one with ten
 * thousand.
 */
import type { Queries } from '../../db/database.ts';
import { type Item, itemColumns } from './item-record.ts';

/** A count with an upper bound. Beyond it, `isMore` is true and we stop counting. */
export interface BoundedCount {
  readonly count: number;
  readonly isMore: boolean;
}

/**
 * Returns SQL for the smallest subject in any of the tables that comes after `start`, or is equal to it if `comparison`
 * is `>=`. Each table has an index for it.
 */
function nextSubject(comparison: '>' | '>=', start: string): string {
  const ofTable = (table: string): string =>
    `(select subject from ${table} where project_id = $1::uuid and subject ${comparison} ${start} order by subject limit 1)`;
  const ofPage = `(select subject from memory_pages
     where project_id = $1::uuid and kind = 'profile' and coalesce(subject, '') ${comparison} ${start} order by coalesce(subject, '') limit 1)`;
  const tables = ['conversations', 'call_texts', 'memory_items', 'memory_facts'].map(ofTable);
  return `least(${[...tables, ofPage].join(', ')})`;
}

/**
 * How many subjects without the prefix we skip before we give up. In most collations, case only matters as a
 * tie-breaker, so there may be such subjects between those that have the prefix.
 */
const maxOthers = 200;

/**
 * If we append one of these to a prefix, the result is sorted after all subjects with this prefix. The first text is
 * for Unicode collations, the second one for collations that compare bytes, and the others for collations that know
 * neither of them.
 */
const lastTexts = ['\u{ffff}', '\u{10ffff}', '\u9fa0', 'zzzz'];

export interface SubjectPage {
  readonly prefix: string;
  readonly after: string | null;
  readonly limit: number;
}

export interface SubjectList {
  readonly subjects: readonly string[];
  /**
   * If we gave up before the page was full (see `maxOthers`), this is the last subject that we compared, so that the
   * caller can continue after it. Otherwise null.
   */
  readonly stoppedAt: string | null;
}

/**
 * Lists subjects in the order of the database's collation. In each step of the recursion, we skip all rows of a subject
 * by looking up the next one in the index of each table.
 */
export async function listSubjects(queries: Queries, projectId: string, { prefix, after, limit }: SubjectPage): Promise<SubjectList> {
  const rows = await queries.query<{ subject: string; matches: boolean; stopped: boolean }>(
    `with recursive step as (
       select first.subject, 0 as found, 0 as others
         from (select ${after === null ? nextSubject('>=', '$2::text') : nextSubject('>', '$6::text')} as subject) as first
       union all
       select (select ${nextSubject('>', 'step.subject')}),
              step.found + starts_with(step.subject, $2::text)::integer, step.others + (not starts_with(step.subject, $2::text))::integer
         from step
        where step.subject is not null and step.found < $3::integer and step.others < $4::integer
          and (starts_with(step.subject, $2::text) or step.subject <= (select max(bound) from unnest($5::text[]) as bound))
     )
     select subject, starts_with(subject, $2::text) as matches, others >= $4::integer as stopped
       from step where subject is not null order by found + others`,
    [projectId, prefix, limit, maxOthers, lastTexts.map((text) => prefix + text), ...(after === null ? [] : [after])],
  );
  const subjects = rows.flatMap(({ subject, matches }) => (matches ? subject : [])).slice(0, limit);
  const last = rows.at(-1);
  return { subjects, stoppedAt: last?.stopped && subjects.length < limit ? last.subject : null };
}

export type SubjectCounts = Awaited<ReturnType<typeof countSubject>>;

/**
 * How many rows we read to count closed memories, pinned memories or valid facts. There's no index that contains only
 * these, so we read all memories or facts of the subject and pick them out.
 */
const maxRead = 10_000;
const maxCounted = 1_000;

export async function countSubject(queries: Queries, projectId: string, subject: string) {
  const [row] = await queries.query<Record<string, number>>(
    `select live.*, items.*, facts.*,
            (select count(*)::integer from (
               select 1 from conversations where project_id = $1::uuid and subject = $2::text limit $4::integer + 1) as counted) as conversations,
            (select count(*)::integer from (
               select 1 from call_texts where project_id = $1::uuid and subject = $2::text limit $4::integer + 1) as counted) as prompts
       from (
         select count(*)::integer as live, count(*) filter (where pinned)::integer as pinned
           from (select pinned from memory_items where project_id = $1::uuid and subject = $2::text and state = 'live'
                  order by created_at desc, id desc limit $3::integer) as read
       ) as live,
       (
         select count(*)::integer as items, count(*) filter (where state = 'closed')::integer as closed
           from (select state from memory_items where project_id = $1::uuid and subject = $2::text limit $3::integer) as read
       ) as items,
       (
         select count(*)::integer as "factsRead", count(*) filter (where valid_to is null or valid_to > now())::integer as facts,
                count(*) filter (where valid_to <= now())::integer as "endedFacts"
           from (select valid_to from memory_facts where project_id = $1::uuid and subject = $2::text
                  order by created_at desc limit $3::integer) as read
       ) as facts`,
    [projectId, subject, maxRead, maxCounted],
  );
  const numberOf = (name: string): number => row?.[name] ?? 0;
  const ofRead = (name: string, read: string): BoundedCount => ({ count: numberOf(name), isMore: numberOf(read) >= maxRead });
  return {
    live: ofRead('live', 'live'),
    /** Pinned memories that are live. They're part of every wake-up (`recall/wake-up.ts`). */
    pinned: ofRead('pinned', 'live'),
    closed: ofRead('closed', 'items'),
    facts: ofRead('facts', 'factsRead'),
    endedFacts: ofRead('endedFacts', 'factsRead'),
    conversations: toBoundedCount(numberOf('conversations'), maxCounted),
    prompts: toBoundedCount(numberOf('prompts'), maxCounted),
  };
}

/** Converts the result of a query that stops counting at `max + 1`. */
function toBoundedCount(found: number, max: number): BoundedCount {
  return { count: Math.min(found, max), isMore: found > max };
}

/**
 * Returns the newest live memories about the subject. With `pinned`, only returns pinned ones, and only looks at the
 * newest 10,000 memories to find them.
 */
export function listNewestItems(
  queries: Queries,
  projectId: string,
  { subject, pinned, limit }: { readonly subject: string; readonly pinned: boolean; readonly limit: number },
): Promise<Item[]> {
  return queries.query<Item>(
    `select ${itemColumns} from (
       select * from memory_items
        where project_id = $1::uuid and subject = $2::text and state = 'live'
        order by created_at desc, id desc limit $3::integer
     ) as item ${pinned ? 'where item.pinned' : ''} order by item.created_at desc, item.id desc limit $4::integer`,
    [projectId, subject, pinned ? maxRead : limit, limit],
  );
}

export interface SeenTimes {
  readonly first: Date;
  readonly last: Date;
}

/**
 * Returns when the subject's first conversation began, and when its latest turn was. The conversation that began first
 * isn't always the one that has been idle for the longest time, so we compare the starts of many.
 */
export async function readConversationTimes(queries: Queries, projectId: string, subject: string): Promise<SeenTimes | null> {
  const conversations = (order: 'asc' | 'desc'): string =>
    `(select started_at, last_turn_at from conversations where project_id = $1::uuid and subject = $2::text
       order by last_turn_at ${order}, id ${order} limit $3::integer) as conversation`;
  const [row] = await queries.query<{ first: Date | null; last: Date | null }>(
    `select (select min(started_at) from ${conversations('asc')}) as first,
            (select last_turn_at from ${conversations('desc')} limit 1) as last`,
    [projectId, subject, maxRead],
  );
  return row?.first && row.last ? { first: row.first, last: row.last } : null;
}

export interface SubjectSummary {
  readonly subject: string;
  readonly memories: BoundedCount;
  readonly conversations: BoundedCount;
  readonly lastTurnAt: Date | null;
}

const maxListed = 100;

/** Summarizes the given subjects and keeps their order. */
export async function summarizeSubjects(queries: Queries, projectId: string, subjects: readonly string[]): Promise<SubjectSummary[]> {
  const rows = await queries.query<{ subject: string; memories: number; conversations: number; lastTurnAt: Date | null }>(
    `select given.subject, memories.count as memories, conversations.count as conversations, conversations.last as "lastTurnAt"
       from unnest($2::text[]) with ordinality as given (subject, position)
      cross join lateral (
        select count(*)::integer as count from (
          select 1 from memory_items where project_id = $1::uuid and subject = given.subject and state = 'live' limit $3::integer + 1
        ) as counted) as memories
      cross join lateral (
        select count(*)::integer as count, max(last_turn_at) as last from (
          select last_turn_at from conversations where project_id = $1::uuid and subject = given.subject
           order by last_turn_at desc, id desc limit $3::integer + 1
        ) as counted) as conversations
      order by given.position`,
    [projectId, subjects, maxListed],
  );
  return rows.map(({ memories, conversations, ...row }) => ({
    ...row,
    memories: toBoundedCount(memories, maxListed),
    conversations: toBoundedCount(conversations, maxListed),
  }));
}
