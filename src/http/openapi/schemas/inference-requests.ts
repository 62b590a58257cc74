/**
 * What the gateway itself asks of the bodies of the inference routes; everything else goes to the vendor unread, so the objects are open.
 *
 * The bodies are validated by their spans (`dialects/*.ts`), since they are never parsed whole on the path of a call: a property test holds
 * these schemas and those validators together.
 */
import { z } from 'zod';
import type { TextRoute } from '../../../core/call.ts';

const modelForms = 'a tier, `auto`, or `<provider>/<model>` of `GET /v1/models`';
const stream = z.boolean().optional().describe('`true`: the answer is server-sent events');
const requiredModel = z.string().min(1).describe(modelForms);

const passthrough = { model: requiredModel };

export const inferenceRequests: Readonly<Record<TextRoute, z.ZodType>> = {
  chat: z
    .looseObject({
      model: z.string().nullable().optional().describe(`${modelForms}; without it \`auto\` is used`),
      messages: z.array(z.unknown()),
      stream,
      user: z.unknown().optional().describe('a string names the end user where `x-gateway-memory-subject` is not sent'),
    })
    .describe(
      'A chat completion. With `stream: true` the vendor is asked for `stream_options.include_usage`; all other members go to it unchanged.',
    ),
  messages: z
    .looseObject({
      model: z.string().optional().describe(`${modelForms}; without it \`auto\` is used`),
      max_tokens: z.number(),
      messages: z.array(z.unknown()),
      stream,
      metadata: z.unknown().optional().describe('`user_id` names the end user where `x-gateway-memory-subject` is not sent'),
    })
    .describe('A message. All other members go to the vendor unchanged.'),
  embeddings: z.looseObject(passthrough).describe('Goes to the vendor unchanged, but for the model.'),
  moderations: z.looseObject(passthrough).describe('Goes to the vendor unchanged, but for the model.'),
  rerank: z.looseObject(passthrough).describe('Goes to the vendor unchanged, but for the model.'),
  responses: z.looseObject({ ...passthrough, stream }).describe('Goes to the vendor unchanged, but for the model.'),
};
