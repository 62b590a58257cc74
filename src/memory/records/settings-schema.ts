/**
 * The form of a project's memory settings, and how a change applies to them. All interfaces use the same schema and the
 * same function.
 */
import { z } from 'zod';
import { gatewayError } from '../../core/errors.ts';
import { parseOrBadRequest } from '../../core/parse-or-bad-request.ts';
import { type DeletionRule, deletesMore } from './deletion-rule.ts';

const minutesPerDay = 24 * 60;

/** With the flag `u`, the length limit counts code points. */
const senderSchema = z.string().regex(/^[^\0\p{Cs}]{1,256}$/u, 'must be the name of an application, 1 to 256 characters');

/** Schemas of the settings, for interfaces that describe their input. */
export const memorySettingsFields = {
  enabled: z.boolean().describe('whether the project has memory'),
  only_senders: z.array(senderSchema).max(1_000).describe('applications from which memory learns; an empty list stands for all'),
  delete_conversations_after_days: z
    .int()
    .min(1)
    .max(36_500)
    .nullable()
    .describe(
      'after how many days conversations are deleted; null keeps everything; a change that deletes more takes effect after 24 hours',
    ),
  delete_unlearned: z
    .boolean()
    .describe('also delete conversations that memory has not learned from; the change takes effect after 24 hours'),
  batch_of: z.int().min(1).max(1_000).describe('messages per batch'),
  at_least_every_minutes: z
    .int()
    .min(1)
    .max(43_200)
    .describe('how long a message waits for its batch at most; has to be shorter than the deletion period'),
  recall_budget_tokens: z
    .int()
    .min(100)
    .max(16_000)
    .nullable()
    .describe(
      'how many tokens recall may add to a prompt, where four bytes of text count as a token; null stands for up to ten memories with 4,000 characters in all',
    ),
};

export const memorySettingsInput = z
  .strictObject({
    ...memorySettingsFields,
    // Null cancels the pending deletion. Other values are accepted but ignored, so that clients can send back what
    // they've read.
    pending_deletion: z
      .looseObject({})
      .nullable()
      .describe('null cancels the planned change; if you send back the value that you read, nothing changes'),
  })
  .partial();

export const storedSchema = z.object({
  enabled: memorySettingsFields.enabled.default(true),
  only_senders: memorySettingsFields.only_senders.default([]),
  delete_conversations_after_days: memorySettingsFields.delete_conversations_after_days.default(null),
  delete_unlearned: memorySettingsFields.delete_unlearned.default(false),
  batch_of: memorySettingsFields.batch_of.default(20),
  at_least_every_minutes: memorySettingsFields.at_least_every_minutes.default(60),
  recall_budget_tokens: memorySettingsFields.recall_budget_tokens.default(null),
});

export type MemorySettings = Readonly<z.output<typeof storedSchema>>;

export const pendingSchema = z.object({
  delete_conversations_after_days: z.int(),
  delete_unlearned: z.boolean(),
  /** The rule takes effect with the first daily cleanup after this time (in RFC 3339). */
  effective_at: z.string(),
  /**
   * How many conversations the cleanup would have deleted when the change was requested, counted up to `maxPreviewed`.
   */
  conversations: z.int(),
});

export type PendingDeletion = Readonly<z.output<typeof pendingSchema>>;

export type ShownMemorySettings = MemorySettings & { readonly pending_deletion: PendingDeletion | null };

export const defaultMemorySettings: MemorySettings = Object.freeze(storedSchema.parse({}));

/** Checks whether the settings allow us to record the calls of an application. */
export function isSourceRecorded(
  { enabled, only_senders: senders }: MemorySettings,
  { source, hasExplicitSource }: { readonly source: string; readonly hasExplicitSource: boolean },
): boolean {
  return enabled && (senders.length === 0 || (hasExplicitSource && senders.includes(source)));
}

export interface ParsedSettingsChange {
  /** The settings that take effect immediately. */
  readonly settings: MemorySettings;
  /** The requested deletion rule if it would delete more than the current one, otherwise null. */
  readonly stricter: (DeletionRule & { readonly delete_conversations_after_days: number }) | null;
}

/** Validates a partial change and returns a function that applies it. Throws `bad_request`. */
export function parseMemorySettingsChange(input: unknown): (current: ShownMemorySettings) => ParsedSettingsChange {
  const { pending_deletion: pendingGiven, ...change } = parseOrBadRequest(memorySettingsInput, input ?? {});
  return (current) => {
    const next = storedSchema.parse({ ...current, ...change });
    const { pending_deletion: pending } = current;
    const sendsBackPending = pendingGiven !== undefined && pendingGiven !== null && isSameRule(next, current);
    const keepsPending = pendingGiven !== null && pending !== null && (sendsBackPending || asksForPending(change, pending, current));
    const wanted = toRule(keepsPending ? pending : next);
    const { delete_conversations_after_days: days } = wanted;
    const stricter = days !== null && deletesMore(wanted, current) ? { ...wanted, delete_conversations_after_days: days } : null;
    const settings = { ...next, ...(stricter ? withoutStricterParts(stricter, current) : wanted) };
    // Batches have to start at shorter intervals than the deletion period, so that a conversation isn't deleted before
    // a batch can learn from it.
    for (const period of [days, settings.delete_conversations_after_days])
      if (period !== null && next.at_least_every_minutes >= period * minutesPerDay)
        throw gatewayError('bad_request', {
          issues: [{ path: 'at_least_every_minutes', message: 'must be shorter than the deletion period' }],
        });
    return { settings, stricter };
  };
}

/**
 * Checks whether a change leaves the pending rule as it is. This is the case if the change doesn't contain any part of
 * a rule, or only repeats parts of the pending one. All other changes replace it, and the parts that they leave out
 * keep the value that's in effect.
 */
function asksForPending(
  { delete_conversations_after_days: days, delete_unlearned: unlearned }: z.output<typeof memorySettingsInput>,
  pending: DeletionRule,
  current: DeletionRule,
): boolean {
  // The period that's in effect cancels the pending rule, even if that rule has the same period and only turns on
  // `delete_unlearned`.
  if (unlearned === undefined && days !== undefined && days === current.delete_conversations_after_days) return false;
  return (
    (days === undefined || days === pending.delete_conversations_after_days) &&
    (unlearned === undefined || unlearned === pending.delete_unlearned)
  );
}

/**
 * Returns the rule that applies until the stricter rule takes effect. If some part of the stricter rule deletes less
 * than the current one, this part doesn't have to wait.
 */
function withoutStricterParts(
  stricter: DeletionRule & { readonly delete_conversations_after_days: number },
  { delete_conversations_after_days: days, delete_unlearned: unlearned }: DeletionRule,
): DeletionRule {
  return {
    delete_conversations_after_days: days === null ? null : Math.max(days, stricter.delete_conversations_after_days),
    delete_unlearned: unlearned && stricter.delete_unlearned,
  };
}

function toRule({ delete_conversations_after_days, delete_unlearned }: DeletionRule): DeletionRule {
  return { delete_conversations_after_days, delete_unlearned };
}

export function isSameRule(one: DeletionRule, other: DeletionRule): boolean {
  return one.delete_conversations_after_days === other.delete_conversations_after_days && one.delete_unlearned === other.delete_unlearned;
}
