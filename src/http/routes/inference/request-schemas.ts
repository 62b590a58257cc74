/**
 * What the gateway itself requires of inference bodies; everything else is forwarded unread, so the objects are open.
 *
 * The codecs in `dialects` validate byte ranges, since bodies are never parsed completely on the path of a call. A property test compares
 * these schemas with those validators.
 */
import { z } from 'zod';
import type { TextRoute } from '../../../core/call.ts';

const modelForms = 'a tier, `auto`, or `<provider>/<model>` of `GET /v1/models`';
const stream = z.boolean().optional().describe('`true`: respond with server-sent events');
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
    .describe('A chat completion. `stream: true` sets `stream_options.include_usage`; all other members are forwarded unchanged.'),
  messages: z
    .looseObject({
      model: z.string().optional().describe(`${modelForms}; without it \`auto\` is used`),
      max_tokens: z.number(),
      messages: z.array(z.unknown()),
      stream,
      metadata: z.unknown().optional().describe('`user_id` names the end user where `x-gateway-memory-subject` is not sent'),
    })
    .describe('A message. All other members are forwarded unchanged.'),
  embeddings: z.looseObject(passthrough).describe('Goes to the vendor unchanged, but for the model.'),
  moderations: z.looseObject(passthrough).describe('Goes to the vendor unchanged, but for the model.'),
  rerank: z.looseObject(passthrough).describe('Goes to the vendor unchanged, but for the model.'),
  responses: z.looseObject({ ...passthrough, stream }).describe('Goes to the vendor unchanged, but for the model.'),
};
