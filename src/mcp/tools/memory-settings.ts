/**
 * `gateway_read_memory_settings` and `gateway_set_memory_settings`. These are the same settings as in the console and
 * under `/provision`.
 */
import { z } from 'zod';
import { type Clock, dayMs, formatTime, formatTimeOrNull } from '../../core/time.ts';
import { count, text, time } from '../../http/openapi/schemas/primitives.ts';
import { memoryResponses } from '../../http/shapes/memory-responses.ts';
import { deletesMore, type RetentionPreview } from '../../memory/records/deletion-rule.ts';
import type { MemorySettingsChange } from '../../memory/records/settings.ts';
import { memorySettingsFields, type PendingDeletion, type ShownMemorySettings } from '../../memory/records/settings-schema.ts';
import type { Access } from '../access.ts';
import { type AnyTool, defineTool } from './tool.ts';

export interface LastChange {
  readonly at: number;
  /** A person's email address, or `admin token`. Null if the person has been deleted. */
  readonly by: string | null;
}

export interface MemorySettingsToolDeps {
  readonly readSettings: (projectId: string) => Promise<ShownMemorySettings>;
  /** Returns null if nobody has changed the settings yet. */
  readonly readLastChange: (projectId: string) => Promise<LastChange | null>;
  /** Changes the settings and writes an audit row. Throws `bad_request` if the change is invalid. */
  readonly changeSettings: (access: Access, projectId: string, change: Readonly<Record<string, unknown>>) => Promise<MemorySettingsChange>;
  readonly previewRetention: (projectId: string, rule: DeletionStart['rule'], at: number) => Promise<RetentionPreview>;
  readonly clock: Clock;
}

const settings = memoryResponses.MemorySettings;

const settingsInput = z
  .object({
    ...memorySettingsFields,
    pending_deletion: z.null().describe('Send null to cancel a change of the deletion period that is not in effect yet.'),
  })
  .partial();

const deletionSchema = z.object({
  effective_at: time
    .nullable()
    .describe('The first daily cleanup after this time deletes conversations. Null if the period is already in effect.'),
  conversations: count.describe('How many conversations that cleanup deletes. The count stops at 10,000.'),
  closed_memories: count.describe('How many corrected or removed memories it deletes. The count stops at 10,000.'),
  first_affected_date: z.string().nullable().describe('The UTC date of the first deletion. Null if no conversation is stored.'),
});

type DeletionJson = z.output<typeof deletionSchema>;

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
        'delete_conversations_after_days, or turning on delete_unlearned, makes the daily cleanup delete stored conversations, which cannot be ' +
        'undone, so ask the person first. Such a change takes effect after 24 hours, and every member can cancel it until then. If you change one of ' +
        'the two, this replaces a change that is still pending, and the other one keeps the value that is in effect. The result says when ' +
        'the change takes effect, and which date is affected first.',
      scope: 'settings:write',
      isReadOnly: false,
      isDestructive: true,
      input: settingsInput,
      output: z.object({
        settings,
        deletion: deletionSchema.nullable().describe('Null if the change does not delete more than before.'),
      }),
      async run(input, { access, project }) {
        const change = await deps.changeSettings(access, project.projectId, input);
        const start = findStart(change);
        const now = deps.clock.now();
        const at = start?.effectiveAt === undefined ? now : Date.parse(start.effectiveAt);
        const deletion = start && toDeletionJson(await deps.previewRetention(project.projectId, start.rule, at), start, at);
        return { output: { settings: change.settings, deletion }, summary: deletion && describeDeletion(deletion) };
      },
    }),
  ];
}

interface DeletionStart {
  readonly rule: Pick<PendingDeletion, 'delete_conversations_after_days' | 'delete_unlearned'>;
  /** The time when the rule takes effect. Absent if it has already taken effect. */
  readonly effectiveAt?: string;
}

/**
 * Checks whether this change makes the cleanup delete more, either immediately or after the notice period. If so,
 * returns the new rule and when it starts, or otherwise null.
 */
function findStart({ previous, settings: current }: MemorySettingsChange): DeletionStart | null {
  const { pending_deletion: pending, delete_conversations_after_days: days } = current;
  if (pending) {
    const isNew = previous.pending_deletion?.effective_at !== pending.effective_at;
    return isNew ? { rule: pending, effectiveAt: pending.effective_at } : null;
  }
  return days !== null && deletesMore(current, previous) ? { rule: { ...current, delete_conversations_after_days: days } } : null;
}

function toDeletionJson(
  { conversations, closedItems, oldestTurn }: RetentionPreview,
  { rule, effectiveAt }: DeletionStart,
  at: number,
): DeletionJson {
  const days = rule.delete_conversations_after_days;
  const firstAt = oldestTurn === null ? null : Math.max(at, oldestTurn.getTime() + days * dayMs);
  return {
    effective_at: effectiveAt ?? null,
    conversations,
    closed_memories: closedItems,
    first_affected_date: firstAt === null ? null : formatTime(firstAt).slice(0, 10),
  };
}

function describeDeletion({ effective_at: at, conversations, first_affected_date: date }: DeletionJson): string {
  if (date === null) return 'No conversation is stored yet that the daily cleanup could delete.';
  const cleanup = at === null ? 'The next daily cleanup' : `The first daily cleanup after ${at}, until which every member can cancel it,`;
  return `${cleanup} deletes ${conversations} conversations. The first affected date is ${date} (UTC).`;
}
