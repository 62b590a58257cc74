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
  .describe('the end user; if you omit it, the whole project');
const nonBlankText = z
  .string()
  .min(1)
  .regex(/[^\s\p{Cc}\p{Default_Ignorable_Code_Point}]/u);
const text = nonBlankText.max(4_000).describe('1 to 4,000 characters after trimming, in which credentials are replaced');
const kind = z.enum(['fact', 'preference', 'decision', 'event', 'procedure']);

const name = z.string().max(2_000).nullish();
const dryRun = { subject, dry_run: z.literal(true) };

export const memoryRequests = {
  MemoryItemBody: z
    .looseObject({
      text,
      kind: kind.optional().describe('by default `fact`'),
      importance: z
        .union([z.int().min(1).max(5), z.enum(['low', 'normal', 'high'])])
        .optional()
        .describe('by default 3, which is the same as `normal`'),
      subject,
      pinned: z.boolean().optional().describe('`true` is rejected, because only a person can pin a memory'),
    })
    .describe('A new memory.'),
  MemoryCorrectionBody: z.looseObject({ text }).describe('The new text.'),
  MemoryRatingBody: z.looseObject({ rating: z.enum(['useful', 'wrong']) }),
  MemoryRememberBody: z
    .looseObject({ focus: z.string().max(2_000).nullish().describe('what to learn, by default everything relevant') })
    .nullable(),
  MemoryWakeUpBody: z.looseObject({ subject }).nullable(),
  MemorySearchBody: z.looseObject({
    query: z
      .string()
      .min(1)
      .max(2_000)
      .regex(/[^\s\0]/),
    subject,
    limit: z.int().min(1).max(50).optional().describe('by default 10'),
    kinds: z.array(kind).max(20).optional().describe('kinds of memories to search, by default all'),
    include: z
      .array(z.enum(['memories', 'episodes']))
      .max(20)
      .optional()
      .describe('what to search, by default both'),
    min_score: z.number().min(0).max(1).optional(),
  }),
  MemoryRecallBody: z
    .union([
      z.looseObject({ text: z.string().describe('the last message of the user'), messages: z.never().optional(), ...dryRun }),
      z.looseObject({
        messages: z.array(z.unknown()).describe('messages in the format of chat or messages'),
        text: z.never().optional(),
        ...dryRun,
      }),
    ])
    .describe('Send either `text` or `messages`.'),
  MemoryGraphBody: z
    .looseObject({
      query: name.describe('text that the fact contains'),
      entity: name.describe('name of an entity at either end of the fact'),
      relation: name,
      subject,
      limit: z.int().min(1).max(200).optional().describe('by default 50'),
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
        .describe('applications from which memory learns; an empty list stands for all'),
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
      pending_deletion: z
        .looseObject({})
        .nullable()
        .describe('null cancels the planned change; if you send back the value that you read, nothing changes'),
      batch_of: z.int().min(1).max(1_000).describe('messages per batch'),
      at_least_every_minutes: z
        .int()
        .min(1)
        .max(43_200)
        .describe('how long a message waits for its batch at most; has to be shorter than the deletion period'),
    })
    .partial()
    .nullable()
    .describe('Omitted members keep their values.'),
};
