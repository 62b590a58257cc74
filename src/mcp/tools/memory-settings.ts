/** `gateway_read_memory_settings` and `gateway_set_memory_settings`: the settings of the console and of `/provision`, by the same function. */
import { z } from 'zod';
import { type Clock, dayMs, formatTime, formatTimeOrNull } from '../../core/time.ts';
import { count, text, time } from '../../http/openapi/schemas/primitives.ts';
import { memoryResponses } from '../../http/routes/memory/response-schemas.ts';
import type { RetentionPreview } from '../../memory/records/deletion-rule.ts';
import { type MemorySettings, type MemorySettingsChange, memorySettingsFields } from '../../memory/records/settings.ts';
import type { Access } from '../access.ts';
import { type AnyTool, defineTool } from './tool.ts';

export interface LastChange {
  readonly at: number;
  /** Email of a person, or `admin token`; null when the person was deleted. */
  readonly by: string | null;
}

export interface MemorySettingsToolDeps {
  readonly readSettings: (projectId: string) => Promise<MemorySettings>;
  /** Null when nobody has changed them. */
  readonly readLastChange: (projectId: string) => Promise<LastChange | null>;
  /** Writes the audit row. Throws `bad_request`. */
  readonly changeSettings: (access: Access, projectId: string, change: Readonly<Record<string, unknown>>) => Promise<MemorySettingsChange>;
  /** What the cleanup deletes with a deletion period of `days`. */
  readonly previewRetention: (projectId: string, days: number) => Promise<RetentionPreview>;
  readonly clock: Clock;
}

const settings = memoryResponses.MemorySettings;

const { enabled, only_senders, delete_conversations_after_days, batch_of, at_least_every_minutes } = memorySettingsFields;

const settingsInput = z
  .object({
    enabled: enabled.describe('Whether conversations are recorded and recalled.'),
    only_senders: only_senders.describe('Applications whose calls are recorded; an empty list means all.'),
    delete_conversations_after_days: delete_conversations_after_days.describe(
      'The daily cleanup deletes conversations whose last turn is older; null keeps everything.',
    ),
    batch_of: batch_of.describe('Messages of a learning batch.'),
    at_least_every_minutes: at_least_every_minutes.describe(
      'A smaller batch starts after this time; must be shorter than the deletion period.',
    ),
  })
  .partial();

export function createMemorySettingsTools(deps: MemorySettingsToolDeps): readonly AnyTool[] {
  return [
    defineTool({
      name: 'gateway_read_memory_settings',
      title: 'Read memory settings',
      description: 'Returns the memory settings of a project, and who changed them last.',
      scope: 'settings:read',
      isReadOnly: true,
      input: z.object({}),
      output: z.object({ settings, changed_at: time.nullable(), changed_by: text }),
      async run(_input, { project }) {
        const [current, change] = await Promise.all([deps.readSettings(project.projectId), deps.readLastChange(project.projectId)]);
        return { output: { settings: current, changed_at: formatTimeOrNull(change?.at ?? null), changed_by: change?.by ?? null } };
      },
    }),
    defineTool({
      name: 'gateway_set_memory_settings',
      title: 'Change memory settings',
      description:
        'Changes the memory settings of a project and returns all of them. Omitted settings keep their value. Turning on or shortening ' +
        'delete_conversations_after_days makes the daily cleanup delete stored conversations, which cannot be undone: ask the person first. ' +
        'The result then names the first affected date.',
      scope: 'settings:write',
      isReadOnly: false,
      input: settingsInput,
      output: z.object({
        settings,
        deletion: z
          .object({
            conversations: count.describe('which the next cleanup deletes; at most 10,000 are counted'),
            closed_memories: count.describe('corrected or removed before that time; at most 10,000 are counted'),
            first_affected_date: z.string().nullable().describe('UTC date of the first deletion; null: no conversation is stored'),
          })
          .nullable()
          .describe('null: the change does not delete more than before'),
      }),
      async run(input, { access, project }) {
        const change = await deps.changeSettings(access, project.projectId, input);
        const days = startedPeriod(change);
        const preview = days === null ? null : await deps.previewRetention(project.projectId, days);
        const deletion = days === null || preview === null ? null : toDeletionJson(preview, days, deps.clock.now());
        return { output: { settings: change.settings, deletion }, summary: deletion && describeDeletion(deletion) };
      },
    }),
  ];
}

/** The deletion period when the change turned it on or shortened it; else null. */
function startedPeriod({ previous, settings: current }: MemorySettingsChange): number | null {
  const [before, days] = [previous.delete_conversations_after_days, current.delete_conversations_after_days];
  return days !== null && (before === null || days < before) ? days : null;
}

interface DeletionJson {
  readonly conversations: number;
  readonly closed_memories: number;
  readonly first_affected_date: string | null;
}

function toDeletionJson({ conversations, closedItems, oldestTurn }: RetentionPreview, days: number, now: number): DeletionJson {
  const firstAt = oldestTurn === null ? null : Math.max(now, oldestTurn.getTime() + days * dayMs);
  return { conversations, closed_memories: closedItems, first_affected_date: firstAt === null ? null : formatTime(firstAt).slice(0, 10) };
}

function describeDeletion({ conversations, first_affected_date: date }: DeletionJson): string {
  if (date === null) return 'No conversation is stored yet that the daily cleanup could delete.';
  return `The next daily cleanup deletes ${conversations} conversations. The first affected date is ${date} (UTC).`;
}
