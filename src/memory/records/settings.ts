/**
 * Memory settings of a project: one schema and one way to change them for every interface.
 *
 * Write decisions read the settings in their own transaction (`readMemorySettings`). `get` serves readers on the request path from a cache.
 */

import { z } from 'zod';
import { gatewayError } from '../../core/errors.ts';
import { parseOrBadRequest } from '../../core/parse-or-bad-request.ts';
import type { Clock } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { createNotifiedCache } from '../../db/notified-cache.ts';
import type { Logger } from '../../observability/logger.ts';
import { signalBatches, triggerLearning } from '../triggers/learning-triggers.ts';

export interface MemorySettingsOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly logger?: Pick<Logger, 'warn'>;
}

const channel = 'gateway_memory_settings';
const minutesPerDay = 24 * 60;

const senderSchema = z
  .string()
  .min(1)
  .max(512)
  .refine((name) => [...name].length <= 256 && !/[\0\p{Cs}]/u.test(name), 'must be the name of an application, 1 to 256 characters');

/** Schemas of the settings by name, for interfaces that describe their input. */
export const memorySettingsFields = {
  enabled: z.boolean(),
  only_senders: z.array(senderSchema).max(1_000),
  delete_conversations_after_days: z.int().min(1).max(36_500).nullable(),
  batch_of: z.int().min(1).max(1_000),
  at_least_every_minutes: z.int().min(1).max(43_200),
};

const changeSchema = z.strictObject(memorySettingsFields).partial();

const storedSchema = z.object({
  enabled: memorySettingsFields.enabled.default(true),
  only_senders: memorySettingsFields.only_senders.default([]),
  delete_conversations_after_days: memorySettingsFields.delete_conversations_after_days.default(null),
  batch_of: memorySettingsFields.batch_of.default(20),
  at_least_every_minutes: memorySettingsFields.at_least_every_minutes.default(60),
});

/** As stored, and as the provisioning API shows them. */
export type MemorySettings = Readonly<z.output<typeof storedSchema>>;

export const defaultMemorySettings: MemorySettings = Object.freeze(storedSchema.parse({}));

export interface MemorySettingsChange {
  readonly previous: MemorySettings;
  readonly settings: MemorySettings;
}

/** Whether the settings let the calls of a source be recorded. */
export function isSourceRecorded(
  { enabled, only_senders: senders }: MemorySettings,
  { source, sourceGiven }: { readonly source: string; readonly sourceGiven: boolean },
): boolean {
  return enabled && (senders.length === 0 || (sourceGiven && senders.includes(source)));
}

export type MemorySettingsStore = ReturnType<typeof createMemorySettings>;

export function createMemorySettings({ database, clock, logger }: MemorySettingsOptions) {
  const read = (projectId: string): Promise<MemorySettings> => readProjectMemorySettings(database, projectId);
  const cache = createNotifiedCache<MemorySettings>({ database, channel, load: read, clock, logger });
  const withDefaults = (row: MemorySettings | null): MemorySettings => row ?? defaultMemorySettings;

  /** As `update`; also returns the settings before the change. */
  const change = async (projectId: string, input: unknown): Promise<MemorySettingsChange> => {
    const apply = parseMemorySettingsChange(input);
    const changed = await database.transaction(async (tx) => {
      // Concurrent partial changes must not overwrite each other.
      await tx.query(`select 1 from projects where id = $1::uuid for update`, [projectId]);
      const previous = await readProjectMemorySettings(tx, projectId);
      const settings = apply(previous);
      await tx.query(
        `insert into memory_settings (project_id, settings, updated_at) values ($1::uuid, $2::jsonb, $3::timestamptz)
         on conflict (project_id) do update set settings = excluded.settings, updated_at = excluded.updated_at`,
        [projectId, JSON.stringify(settings), new Date(clock.now())],
      );
      await tx.query(`select pg_notify($1::text, $2::text)`, [channel, projectId]);
      // The new settings may make a batch due or unblock a running one.
      await triggerLearning(tx, projectId);
      await signalBatches(tx, projectId);
      return { previous, settings };
    });
    cache.invalidate(projectId);
    return changed;
  };

  return {
    /** Synchronous when cached. */
    get(projectId: string): MemorySettings | Promise<MemorySettings> {
      const row = cache.get(projectId);
      return row instanceof Promise ? row.then(withDefaults) : withDefaults(row);
    },
    /** Reads the current settings from the database. */
    read,
    change,
    /** Applies a partial change and returns all settings. Throws `bad_request` that lists every invalid field. */
    update: async (projectId: string, input: unknown): Promise<MemorySettings> => (await change(projectId, input)).settings,
    start: cache.start,
    stop: cache.stop,
  };
}

/** Settings by project id as the transaction sees them; projects without a row are absent. */
export async function readMemorySettings(queries: Queries, projectIds: readonly string[]): Promise<ReadonlyMap<string, MemorySettings>> {
  const rows = await queries.query<{ projectId: string; settings: unknown }>(
    `select project_id as "projectId", settings from memory_settings where project_id = any($1::uuid[])`,
    [projectIds],
  );
  return new Map(rows.map(({ projectId, settings }) => [projectId, storedSchema.parse(settings)]));
}

/** Settings of one project, with defaults. */
export async function readProjectMemorySettings(queries: Queries, projectId: string): Promise<MemorySettings> {
  return (await readMemorySettings(queries, [projectId])).get(projectId) ?? defaultMemorySettings;
}

/** Validates a partial change; the returned function applies it. Throws `bad_request`. */
export function parseMemorySettingsChange(input: unknown): (current: MemorySettings) => MemorySettings {
  const change = parseOrBadRequest(changeSchema, input ?? {});
  return (current) => {
    const next = storedSchema.parse({ ...current, ...change });
    const { delete_conversations_after_days: days, at_least_every_minutes: minutes } = next;
    // Otherwise retention could delete conversations before a batch has read them.
    if (days !== null && minutes >= days * minutesPerDay)
      throw gatewayError('bad_request', { message: 'at_least_every_minutes: must be shorter than delete_conversations_after_days' });
    return next;
  };
}
