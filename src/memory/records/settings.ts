/**
 * Stores the memory settings of projects.
 *
 * A change that makes the cleanup delete more than before takes effect a day later, so that every member has time to
 * cancel it. Until then, the new rule is in the column `pending_deletion`, and `settings` still has the old one. The
 * first daily cleanup after that day applies it.
 *
 * Code that decides what to write reads the settings in its own transaction (`readMemorySettings`). On the request
 * path, use `get` or `getInTime`, which have a cache.
 */
import { type Clock, dayMs, formatTime } from '../../core/time.ts';
import { withTimeout } from '../../core/time-limit.ts';
import type { Database, Queries } from '../../db/database.ts';
import { createNotifiedCache } from '../../db/notified-cache.ts';
import { databaseOf } from '../../db/query-slots.ts';
import type { Logger } from '../../observability/logger.ts';
import { signalBatches, triggerLearning } from '../triggers/learning-triggers.ts';
import { type DeletionRule, holdsDataBefore, previewRetention } from './deletion-rule.ts';
import {
  defaultMemorySettings,
  isSameRule,
  type MemorySettings,
  type PendingDeletion,
  parseMemorySettingsChange,
  pendingSchema,
  type ShownMemorySettings,
  storedSchema,
} from './settings-schema.ts';

export interface MemorySettingsOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly logger?: Pick<Logger, 'warn'>;
}

const channel = 'gateway_memory_settings';
/** A call waits this long for settings that aren't cached. If they don't arrive in time, it goes on without them. */
const readTimeoutMs = 1_000;

/**
 * The notice period of a change that deletes more than before. Members of the project can cancel the change until it
 * ends.
 */
export const deletionNoticeMs = dayMs;

export interface MemorySettingsChange {
  readonly previous: ShownMemorySettings;
  readonly settings: ShownMemorySettings;
}

export type MemorySettingsStore = ReturnType<typeof createMemorySettings>;

export function createMemorySettings({ database, clock, logger }: MemorySettingsOptions) {
  const read = (projectId: string): Promise<ShownMemorySettings> => readShownSettings(database, projectId);
  const cache = createNotifiedCache<MemorySettings>({ database, channel, load: read, clock, logger });
  const readMany = async (projectIds: readonly string[]): Promise<ReadonlyMap<string, MemorySettings>> => {
    const stored = await readMemorySettings(database, projectIds);
    return new Map(projectIds.map((id) => [id, stored.get(id) ?? defaultMemorySettings]));
  };
  const withDefaults = (row: MemorySettings | null): MemorySettings => row ?? defaultMemorySettings;

  /**
   * Like `update`, but also returns the previous settings. `check` runs within the transaction and can reject the
   * change by throwing.
   */
  const change = async (
    projectId: string,
    input: unknown,
    check?: (current: ShownMemorySettings) => void,
  ): Promise<MemorySettingsChange> => {
    const apply = parseMemorySettingsChange(input);
    const changed = await databaseOf(database, projectId).transaction(async (tx) => {
      // Lock the project, so that concurrent partial changes don't overwrite each other.
      await tx.query(`select 1 from projects where id = $1::uuid for update`, [projectId]);
      const previous = await readShownSettings(tx, projectId);
      check?.(previous);
      const { settings: kept, stricter } = apply(previous);
      const pending = stricter && (await toPending(tx, projectId, stricter, previous.pending_deletion));
      const settings = stricter && !pending ? { ...kept, ...stricter } : kept;
      await tx.query(
        `insert into memory_settings (project_id, settings, pending_deletion, updated_at)
         values ($1::uuid, $2::jsonb, $3::jsonb, $4::timestamptz)
         on conflict (project_id) do update
            set settings = excluded.settings, pending_deletion = excluded.pending_deletion, updated_at = excluded.updated_at`,
        [
          projectId,
          JSON.stringify(settings),
          pending && JSON.stringify({ ...pending, replaces: settings.delete_conversations_after_days }),
          new Date(clock.now()),
        ],
      );
      await tx.query(`select pg_notify($1::text, $2::text)`, [channel, projectId]);
      // The new settings may make a batch due, or allow a blocked batch to continue.
      await triggerLearning(tx, projectId);
      await signalBatches(tx, projectId);
      return { previous, settings: { ...settings, pending_deletion: pending } };
    });
    cache.invalidate(projectId);
    return changed;
  };

  /**
   * Returns null if the rule can take effect immediately, because it wouldn't delete anything before the notice period
   * ends.
   */
  const toPending = async (
    tx: Queries,
    projectId: string,
    rule: DeletionRule & { readonly delete_conversations_after_days: number },
    current: PendingDeletion | null,
  ): Promise<PendingDeletion | null> => {
    const { delete_conversations_after_days: days, delete_unlearned: unlearned } = rule;
    // Repeating a request for the same rule doesn't restart the notice period.
    if (current && isSameRule(current, rule)) return current;
    const effectiveAt = clock.now() + deletionNoticeMs;
    if (!(await holdsDataBefore(tx, projectId, new Date(effectiveAt - days * dayMs)))) return null;
    const preview = await previewRetention({ database: tx, clock: { now: () => effectiveAt } }, projectId, days, unlearned);
    return { ...rule, effective_at: formatTime(effectiveAt), conversations: preview.conversations };
  };

  return {
    get: async (projectId: string): Promise<MemorySettings> => withDefaults(await cache.get(projectId)),
    /** Returns null if the database fails or doesn't respond in time. */
    async getInTime(projectId: string): Promise<MemorySettings | null> {
      const row = cache.get(projectId);
      if (!(row instanceof Promise)) return withDefaults(row);
      return withTimeout(row.then(withDefaults), readTimeoutMs, () => null).catch(() => null);
    },
    /** Loads settings into the cache ahead of time, so that `get` answers without a query. */
    warm: (projectIds: readonly string[]): Promise<void> => cache.warm(projectIds, readMany),
    /** Reads the settings from the database instead of the cache. */
    read,
    change,
    /** Changes some settings and returns all of them. Throws a `bad_request` that lists every invalid field. */
    update: async (projectId: string, input: unknown): Promise<ShownMemorySettings> => (await change(projectId, input)).settings,
    start: cache.start,
    stop: cache.stop,
  };
}

/** Returns settings by project id. A project without a settings row is missing from the result. */
export async function readMemorySettings(queries: Queries, projectIds: readonly string[]): Promise<ReadonlyMap<string, MemorySettings>> {
  const rows = await queries.query<{ projectId: string; settings: unknown }>(
    `select project_id as "projectId", settings from memory_settings where project_id = any($1::uuid[])`,
    [projectIds],
  );
  return new Map(rows.map(({ projectId, settings }) => [projectId, storedSchema.parse(settings)]));
}

/** Returns the settings of a project, with defaults filled in. */
export async function readProjectMemorySettings(queries: Queries, projectId: string): Promise<MemorySettings> {
  return (await readMemorySettings(queries, [projectId])).get(projectId) ?? defaultMemorySettings;
}

async function readShownSettings(queries: Queries, projectId: string): Promise<ShownMemorySettings> {
  const [row] = await queries.query<{ settings: unknown; pending: unknown }>(
    `select settings, pending_deletion as pending from memory_settings where project_id = $1::uuid`,
    [projectId],
  );
  return { ...storedSchema.parse(row?.settings ?? {}), pending_deletion: pendingSchema.nullable().parse(row?.pending ?? null) };
}

/**
 * Applies deletion rules whose notice period is over, and returns how many there were. If a process with an older
 * version has changed the deletion period in the meantime, we drop the pending rule, because that version didn't know
 * about it.
 */
export async function applyPendingDeletions(database: Database, now: number): Promise<number> {
  const due = await database.query<{ projectId: string }>(
    `select project_id as "projectId" from memory_settings where (pending_deletion ->> 'effective_at')::timestamptz <= $1::timestamptz`,
    [new Date(now)],
  );
  for (const { projectId } of due)
    await database.transaction(async (tx) => {
      await tx.query(`select 1 from projects where id = $1::uuid for update`, [projectId]);
      await tx.query(
        `update memory_settings
            set settings = case when coalesce(settings -> 'delete_conversations_after_days', 'null') = pending_deletion -> 'replaces'
                  then settings || jsonb_build_object(
                         'delete_conversations_after_days', pending_deletion -> 'delete_conversations_after_days',
                         'delete_unlearned', pending_deletion -> 'delete_unlearned')
                  else settings end,
                pending_deletion = null, updated_at = $2::timestamptz
          where project_id = $1::uuid and (pending_deletion ->> 'effective_at')::timestamptz <= $2::timestamptz`,
        [projectId, new Date(now)],
      );
      await tx.query(`select pg_notify($1::text, $2::text)`, [channel, projectId]);
    });
  return due.length;
}
