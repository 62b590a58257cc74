/**
 * Request schemas of the memory routes and settings, for the API description. The memory module validates most bodies
 * with the same schemas. If a body has alternative forms, the schemas are separate, and a property test makes sure that
 * they agree.
 */
import { z } from 'zod';
import { correctionBody, itemBody, optionalSubject, rememberBody, wakeUpBody } from '../../memory/items/item-schemas.ts';
import { memorySettingsInput } from '../../memory/records/settings-schema.ts';
import { graphQuerySchema } from '../../memory/search/graph.ts';
import { searchRequestSchema } from '../../memory/search/search.ts';

const rating = z.enum(['useful', 'wrong']);
const dryRun = { subject: optionalSubject, dry_run: z.literal(true) };

export const memoryRequests = {
  MemoryItemBody: itemBody.describe('A new memory.'),
  MemoryCorrectionBody: correctionBody.describe('The new text.'),
  MemoryRatingBody: z.union([
    z.looseObject({ rating, call_id: z.null().optional(), memories: z.array(z.never()).nullish() }).describe('Rates one memory.'),
    z
      .looseObject({
        rating,
        call_id: z.uuid().describe('the call in which recall used the memories, from the header `x-gateway-call-id` of its response'),
        memories: z
          .array(z.looseObject({ id: z.uuid(), rating }))
          .max(100)
          .nullish()
          .describe('other memories of the same call'),
      })
      .describe('Rates memories that recall put into a call. The key then counts once per memory.'),
  ]),
  MemoryRememberBody: rememberBody.nullable(),
  MemoryWakeUpBody: wakeUpBody.nullable(),
  MemorySearchBody: searchRequestSchema,
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
  MemoryGraphBody: graphQuerySchema.nullable(),
  MemorySettingsBody: memorySettingsInput.nullable().describe('Omitted members keep their values.'),
};
