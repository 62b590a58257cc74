/** Response schemas by name in the document: those of the route groups, and the error bodies. */
import { z } from 'zod';
import { inferenceResponses } from '../../routes/inference/response-schemas.ts';
import { memoryResponses } from '../../routes/memory/response-schemas.ts';
import { provisionResponses } from '../../routes/provision/response-schemas.ts';
import { statusResponses } from '../../routes/status/response-schemas.ts';

const chatError = z
  .looseObject({ error: z.looseObject({ message: z.string(), type: z.string(), code: z.string() }) })
  .describe('`type` and `code` hold the same value.');
const messagesError = z.looseObject({
  type: z.literal('error'),
  error: z.looseObject({ type: z.string(), message: z.string() }),
});

export const responseSchemas = {
  ...statusResponses,
  ...memoryResponses,
  ...provisionResponses,
  ...inferenceResponses,
  ChatError: chatError,
  MessagesError: messagesError,
} satisfies Record<string, z.ZodType>;

export type ResponseName = keyof typeof responseSchemas;
