/**
 * Counts matches of content rules per rule and hour, and keeps the newest calls of each hour (table
 * `content_rule_hits`). Hits are collected in memory and written once a second, so calls never wait, and a flood of
 * hits changes only one row per rule and hour. If the process is killed, the hits of the last second are lost.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Clock, dayMs, hourMs } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { type ContentRule, ruleIdOf } from '../guardrails/content-rule.ts';
import type { Logger } from '../observability/logger.ts';

export interface RuleHit {
  readonly projectId: string;
  readonly callId: string;
  readonly rules: readonly ContentRule[];
}

export const ruleHitsDays = 7;
/** The maximum number of calls whose ids we keep per rule and hour. Further calls are only counted. */
export const maxCallsPerHour = 100;
const flushMs = 1_000;
/** The maximum number of entries (rule and hour) in memory while the database is unavailable. */
const maxPending = 10_000;

interface PendingHits {
  readonly projectId: string;
  readonly rule: string;
  readonly hour: number;
  hits: number;
  /** Newest first. */
  calls: string[];
}

export interface RuleHitsOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly logger?: Pick<Logger, 'warn'> | undefined;
}

export type RuleHits = ReturnType<typeof createRuleHits>;

export function createRuleHits({ database, clock, logger }: RuleHitsOptions) {
  let pending = new Map<string, PendingHits>();
  let isWriting = false;
  let isFailing = false;
  let isStopped = false;

  const add = ({ projectId, rule, hour, hits, calls }: PendingHits): void => {
    const key = `${projectId} ${rule} ${hour}`;
    const known = pending.get(key);
    if (known) {
      known.hits += hits;
      known.calls = [...calls, ...known.calls].slice(0, maxCallsPerHour);
    } else if (pending.size < maxPending) pending.set(key, { projectId, rule, hour, hits, calls });
  };

  /** Writes all hits, or keeps them for another try if the database is unavailable. */
  const flush = async (): Promise<void> => {
    const taken = [...pending.values()];
    if (taken.length === 0) return;
    pending = new Map();
    try {
      await write(taken);
      isFailing = false;
    } catch (err) {
      // Add the hits that couldn't be written first, because they're older than those that were added in the meantime.
      const newer = [...pending.values()];
      pending = new Map();
      for (const hits of [...taken, ...newer]) add(hits);
      if (!isFailing) logger?.warn({ err }, 'failed to write content rule hits; retrying');
      isFailing = true;
    }
  };

  /** Sort the rows, because processes that lock them in the same order can't deadlock. */
  const write = async (hits: readonly PendingHits[]): Promise<void> => {
    const rows = hits.map(({ hour, ...row }) => ({ ...row, hour: new Date(hour).toISOString() }));
    await database.query(
      `insert into content_rule_hits (project_id, rule, hour, hits, calls)
       select "projectId", rule, hour, hits, calls
         from jsonb_to_recordset($1::jsonb) as hit ("projectId" uuid, rule text, hour timestamptz, hits bigint, calls uuid[])
        order by 1, 2, 3
       on conflict (project_id, rule, hour) do update
          set hits = content_rule_hits.hits + excluded.hits,
              calls = (excluded.calls || content_rule_hits.calls)[1:${maxCallsPerHour}]`,
      [JSON.stringify(rows)],
    );
  };

  const writeSoon = async (): Promise<void> => {
    isWriting = true;
    while (pending.size > 0 && !isStopped) {
      await sleep(flushMs, undefined, { ref: false });
      await flush();
    }
    isWriting = false;
  };

  const since = (): Date => new Date(clock.now() - ruleHitsDays * dayMs);

  /** Returns how often each rule of the project has matched in the last seven days, by rule id. */
  const count = async (projectId: string): Promise<ReadonlyMap<string, number>> => {
    await flush();
    const rows = await database.query<{ rule: string; hits: number }>(
      `select rule, sum(hits)::bigint as hits from content_rule_hits
        where project_id = $1::uuid and hour > $2::timestamptz group by rule`,
      [projectId, since()],
    );
    return new Map(rows.map(({ rule, hits }) => [rule, hits]));
  };

  /** Returns the calls that a rule has matched in the last seven days, newest first. */
  const listCalls = async (
    projectId: string,
    ruleId: string,
    { before, limit }: { readonly before: string | null; readonly limit: number },
  ): Promise<string[]> => {
    await flush();
    const rows = await database.query<{ id: string }>(
      `select id from (select distinct unnest(calls) as id from content_rule_hits
                        where project_id = $1::uuid and rule = $2::text and hour > $3::timestamptz) as hit
        where $4::uuid is null or id < $4::uuid
        order by id desc limit $5::integer`,
      [projectId, ruleId, since(), before, limit],
    );
    return rows.map(({ id }) => id);
  };

  return {
    /** Never waits for the database and never throws. */
    record({ projectId, callId, rules }: RuleHit): void {
      const hour = Math.floor(clock.now() / hourMs) * hourMs;
      for (const rule of new Set(rules.map(ruleIdOf))) {
        // After a failover, we may check several responses of the same call, but we only count a single hit.
        const isCounted = pending.get(`${projectId} ${rule} ${hour}`)?.calls.includes(callId) ?? false;
        if (!isCounted) add({ projectId, rule, hour, hits: 1, calls: [callId] });
      }
      if (!isWriting && !isStopped) void writeSoon();
    },
    /** Returns how often each of these rules has matched, with the ids of the newest calls. */
    async list(projectId: string, rules: readonly ContentRule[], newest: number) {
      const uses = await count(projectId);
      const listed = [];
      for (const rule of rules) {
        const hits = uses.get(ruleIdOf(rule)) ?? 0;
        listed.push({ rule, hits, calls: hits === 0 ? [] : await listCalls(projectId, ruleIdOf(rule), { before: null, limit: newest }) });
      }
      return listed;
    },
    count,
    listCalls,
    /** Writes the hits that are still in memory. */
    async stop(): Promise<void> {
      isStopped = true;
      await flush();
    },
  };
}

/** Deletes hits that are too old to be shown, and returns the number of rows. */
export async function deleteExpiredRuleHits(database: Database, clock: Clock): Promise<number> {
  const rows = await database.query<{ deleted: number }>(
    `with expired as (delete from content_rule_hits where hour <= $1::timestamptz returning 1) select count(*) as deleted from expired`,
    [new Date(clock.now() - (ruleHitsDays + 1) * dayMs)],
  );
  return rows[0]?.deleted ?? 0;
}
