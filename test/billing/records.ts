/** Reads what the gateway recorded during a run, i.e. the rows of calls, and the counters with their leases. */
import type { Tokens } from '../../src/core/pricing.ts';
import type { Database } from '../../src/db/database.ts';

export interface RecordedCall {
  readonly id: string;
  /** The call's name, which we send as `x-gateway-task-id`. Null for calls that the gateway makes on its own. */
  readonly name: string | null;
  readonly route: string;
  readonly source: string;
  readonly model: string | null;
  readonly outcome: string;
  readonly status: number;
  readonly code: string | null;
  readonly stream: boolean;
  readonly estimated: boolean;
  readonly tokens: Tokens;
  readonly costNanos: number;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly reachedVendor: boolean;
  readonly takesSlot: boolean;
  readonly isOfKey: boolean;
}

export interface RecordedCounter {
  readonly holder: 'key' | 'source' | 'project';
  readonly holderId: string;
  readonly ceiling: 'calls' | 'cost' | 'rpm' | 'tpm';
  readonly start: number;
  readonly end: number | null;
  readonly settled: number;
  readonly leased: number;
  /** Sum of the amounts of the counter's leases. */
  readonly leases: number;
}

export async function readCalls(database: Database, project: string): Promise<readonly RecordedCall[]> {
  const rows = await database.query<Record<string, never>>(
    `select calls.id, task_id, route, source, model, outcome, status, code, stream, estimated, vendor_called, takes_slot,
            tokens_input::float8 as input, tokens_cached_input::float8 as cached, tokens_cache_write::float8 as write,
            tokens_cache_write_1h::float8 as write_1h, tokens_output::float8 as output, coalesce(cost_nanos, 0)::float8 as cost,
            extract(epoch from started_at)::float8 * 1000 as started, key_prefix, duration_ms
       from calls join projects on projects.id = calls.project_id where projects.slug = $1::text order by calls.id`,
    [project],
  );
  return rows.map((row) => ({
    id: row['id'] ?? '',
    name: row['task_id'] ?? null,
    route: row['route'] ?? '',
    source: row['source'] ?? '',
    model: row['model'] ?? null,
    outcome: row['outcome'] ?? '',
    status: Number(row['status']),
    code: row['code'] ?? null,
    stream: Boolean(row['stream']),
    estimated: Boolean(row['estimated']),
    tokens: {
      input: Number(row['input']),
      cachedInput: Number(row['cached']),
      cacheWrite: Number(row['write']),
      cacheWrite1h: Number(row['write_1h']),
      output: Number(row['output']),
    },
    costNanos: Number(row['cost']),
    startedAt: Math.round(Number(row['started'])),
    endedAt: Math.round(Number(row['started'])) + Number(row['duration_ms']),
    reachedVendor: Boolean(row['vendor_called']),
    takesSlot: Boolean(row['takes_slot']),
    isOfKey: row['key_prefix'] !== 'gateway',
  }));
}

export async function readCounters(database: Database, project: string): Promise<readonly RecordedCounter[]> {
  const rows = await database.query<Record<string, never>>(
    `select holder, holder_id, ceiling, settled::float8, leased::float8, extract(epoch from window_start)::float8 * 1000 as start,
            extract(epoch from window_end)::float8 * 1000 as "end",
            (select coalesce(sum(amount), 0) from limit_leases where counter_id = limit_counters.id)::float8 as leases
       from limit_counters join projects on projects.id = limit_counters.project_id where projects.slug = $1::text`,
    [project],
  );
  return rows.map((row) => ({
    holder: row['holder'] ?? 'key',
    holderId: row['holder_id'] ?? '',
    ceiling: row['ceiling'] ?? 'cost',
    start: Math.round(Number(row['start'])),
    end: row['end'] === null ? null : Math.round(Number(row['end'])),
    settled: Number(row['settled']),
    leased: Number(row['leased']),
    leases: Number(row['leases']),
  }));
}
