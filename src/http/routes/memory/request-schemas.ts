/**
 * Request schemas of the memory routes and the memory settings. They only serve the API description. The memory module
 * validates the bodies, and a property test compares both. Memory routes ignore unknown members.
 */
import { z } from 'zod';

const subject = z
  .string()
  .min(1)
  .max(256)
  .regex(/^[^\p{Cc}\p{Cs}]+$/u)
  .nullish()
  .describe('the end user; omit for the whole project');
const nonBlankText = z
  .string()
  .min(1)
  .regex(/[^\s\p{Cc}\p{Default_Ignorable_Code_Point}]/u);
const text = nonBlankText.max(4_000).describe('1 to 4,000 characters after trimming; credentials in it are replaced');
const kind = z.enum(['fact', 'preference', 'decision', 'event', 'procedure']);

const name = z.string().max(2_000).nullish();
const dryRun = { subject, dry_run: z.literal(true) };

export const memoryRequests = {
  MemoryItemBody: z
    .looseObject({
      text,
      kind: kind.optional().describe('default: fact'),
      importance: z
        .union([z.int().min(1).max(5), z.enum(['low', 'normal', 'high'])])
        .optional()
        .describe('default: 3, which is normal'),
      subject,
      pinned: z.boolean().optional().describe('true is rejected: only a person can pin'),
    })
    .describe('A new memory.'),
  MemoryCorrectionBody: z.looseObject({ text }).describe('The new text.'),
  MemoryRatingBody: z.looseObject({ rating: z.enum(['useful', 'wrong']) }),
  MemoryRememberBody: z
    .looseObject({ focus: z.string().max(2_000).nullish().describe('what to learn; default: everything relevant') })
    .nullable(),
  MemoryWakeUpBody: z.looseObject({ subject }).nullable(),
  MemorySearchBody: z.looseObject({
    query: z
      .string()
      .min(1)
      .max(2_000)
      .regex(/[^\s\0]/),
    subject,
    limit: z.int().min(1).max(50).optional().describe('default: 10'),
    kinds: z.array(kind).max(20).optional().describe('of memories; default: all'),
    include: z
      .array(z.enum(['memories', 'episodes']))
      .max(20)
      .optional()
      .describe('default: both'),
    min_score: z.number().min(0).max(1).optional(),
  }),
  MemoryRecallBody: z
    .union([
      z.looseObject({ text: z.string().describe('the last message of the user'), messages: z.never().optional(), ...dryRun }),
      z.looseObject({ messages: z.array(z.unknown()).describe('as in a call of chat or messages'), text: z.never().optional(), ...dryRun }),
    ])
    .describe('Either `text` or `messages`.'),
  MemoryGraphBody: z
    .looseObject({
      query: name.describe('text of the fact'),
      entity: name.describe('name of either end'),
      relation: name,
      subject,
      limit: z.int().min(1).max(200).optional().describe('default: 50'),
    })
    .nullable(),
  MemorySettingsBody: z
    .strictObject({
      enabled: z.boolean().describe('whether the project has memory'),
      only_senders: z
        .array(
          z
            .string()
            .min(1)
            .max(256)
            .regex(/^[^\0\p{Cs}]+$/u),
        )
        .max(1_000)
        .describe('applications; empty: all'),
      delete_conversations_after_days: z
        .int()
        .min(1)
        .max(36_500)
        .nullable()
        .describe('null: everything is kept; a period that deletes more than before takes effect after 24 hours'),
      delete_unlearned: z.boolean().describe('also delete conversations that memory has not learned from; as for a shorter period'),
      pending_deletion: z.looseObject({}).nullable().describe('null: cancels the planned change; the one that was read leaves it as it is'),
      batch_of: z.int().min(1).max(1_000).describe('messages per batch'),
      at_least_every_minutes: z
        .int()
        .min(1)
        .max(43_200)
        .describe('longest wait of a message for its batch; shorter than the deletion period'),
    })
    .partial()
    .nullable()
    .describe('Omitted members stay unchanged.'),
};
