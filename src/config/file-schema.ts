/** Schema of gateway.yaml: keys, types and ranges. `load.ts` checks references between its parts. */
import { z } from 'zod';
import { routes } from '../core/call.ts';
import { takeableFields } from '../core/takeable-fields.ts';

export const adminTokenPattern = /^[\x21-\x7e]{16,}$/;

const milliseconds = z.int().min(1).max(3_600_000);
/** Bounded, and valid as a PostgreSQL text, because it is a key in the database. */
export const modelId = z
  .string()
  .max(300)
  .regex(/^[^/\s\p{C}]+\/[^\s\p{C}]+$/u, 'must be a model as <provider>/<model>');
const tierName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, 'a tier is named with letters, digits, ".", "_" and "-"')
  .refine((name) => name !== 'auto', '"auto" is reserved: it lets the gateway choose a tier');
const tiers = z.record(tierName, z.array(modelId).min(1)).optional();
const headerName = z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, 'is not a valid header name');
/** Framing and connection headers, which the HTTP client sets. */
const connectionHeaders = /^(?:connection|content-length|expect|host|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade)$/i;
const fixedHeader = headerName.refine((name) => !connectionHeaders.test(name), 'this header is set by the HTTP connection');
const apiKey = z.string().regex(/^[\x21-\x7e]+$/, 'must be visible characters without spaces or line breaks');
const headerValue = z.string().regex(/^[\t\x20-\x7e]*$/, 'contains a character that is not allowed in headers');
/** A number or decimal text; `catalog.ts` parses the source text of numbers. */
const amount = z.union([z.number(), z.string()]).optional();
const tokenPrices = { input: amount, output: amount, cached_input: amount, cache_write: amount, cache_write_1h: amount };
const tokenCount = z.int().min(1).max(100_000_000).optional();

const provider = z.strictObject({
  base_url: z.string(),
  api_key: apiKey.nullable().optional(),
  dialect: z.enum(['chat', 'messages', 'gemini']),
  serves: z.array(z.enum(routes)).optional(),
  auth: z.strictObject({ header: fixedHeader, scheme: headerValue.min(1).nullable().optional() }).optional(),
  headers: z.record(fixedHeader, headerValue).optional(),
  connect_timeout_ms: milliseconds.optional(),
  first_byte_timeout_ms: milliseconds.optional(),
  idle_timeout_ms: milliseconds.optional(),
  image_shape: z.enum(['openai', 'artifacts']).optional(),
  image_response_format: z.boolean().optional(),
  speech_shape: z.enum(['openai', 'voice']).optional(),
  speech_media_type: z
    .string()
    .regex(/^[\w.+-]+\/[\w.+-]+/, 'must be a media type')
    .optional(),
  speech: z
    .strictObject({
      voice_in: z.enum(['path', 'query']).optional(),
      path: z.string().startsWith('/').optional(),
      text_field: z.string().min(1).optional(),
      body: z.record(z.string(), z.unknown()).optional(),
    })
    .optional(),
  asset_hosts: z.array(z.string().regex(/^[A-Za-z0-9.-]+(?::\d+)?$/, 'must be a host, without a scheme')).optional(),
});

export const modelRow = z.strictObject({
  kind: z.enum(['chat', 'embeddings', 'moderations', 'rerank', 'images', 'speech', 'transcriptions', 'video']).optional(),
  ...tokenPrices,
  above_tokens: z.record(z.string().regex(/^\d+$/, 'must be a number of tokens'), z.strictObject(tokenPrices)).optional(),
  max_output_tokens: tokenCount,
  max_input_tokens: tokenCount,
  context_window: tokenCount,
  supports_schema: z.boolean().optional(),
  thinking: z.enum(['budget', 'adaptive', 'none']).optional(),
  reasons: z.boolean().optional(),
  takes_reasoning: z.enum(['none', 'text', 'details']).optional(),
  serves: z
    .array(z.enum(['chat', 'messages', 'responses']))
    .min(1)
    .optional(),
  takes: z.array(z.enum([...takeableFields.images, ...takeableFields.speech])).optional(),
  image_input: amount,
  per_image: amount,
  per_million_characters: amount,
  per_second: amount,
  per_search: amount,
  per_million_tokens: amount,
});

const providerName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, 'a provider is named with letters, digits, ".", "_" and "-"');

/** As browsers send it: compared byte for byte. */
const origin = z
  .string()
  .refine((text) => text === '*' || (!text.includes('*') && URL.canParse(text) && /^https?:/.test(text) && new URL(text).origin === text), {
    message: 'must be an origin such as https://app.example.com, without a path or a final slash, or "*" for all',
  });

export const fileSchema = z.strictObject({
  providers: z.record(providerName, provider).optional(),
  models: z.record(modelId, modelRow).optional(),
  tiers,
  image_tiers: tiers,
  speech_tiers: tiers,
  transcription_tiers: tiers,
  defaults: z
    .strictObject({
      image_provider: z.string().optional(),
      speech_provider: z.string().optional(),
      transcription_provider: z.string().optional(),
      video_provider: z.string().optional(),
      video_model: z.string().min(1).optional(),
    })
    .optional(),
  auto: z.strictObject({ classifier: z.enum(['rules', 'model', 'off']).optional() }).optional(),
  catalog_fill: z.boolean().optional(),
  on_budget_store_down: z.enum(['allow', 'refuse']).optional(),
  memory: z
    .strictObject({
      idle_minutes: z.number().positive().max(1_440).optional(),
      recall_deadline_ms: z.int().min(1).max(60_000).optional(),
      retry: z
        .strictObject({
          first_minutes: z.number().positive().max(1_440),
          factor: z.number().min(1).max(10),
          longest_minutes: z.number().positive().max(10_080),
        })
        .partial()
        .optional(),
    })
    .optional(),
  cors: z.strictObject({ origins: z.array(origin).max(100) }).optional(),
  public_url: z.string().optional(),
  oidc: z
    .strictObject({
      issuer: z.string(),
      client_id: z.string().min(1),
      client_secret: z.string().min(1).optional(),
      allowed_domains: z.array(z.string()).optional(),
    })
    .partial()
    .optional(),
  admin_token: z.string().regex(adminTokenPattern, 'must have at least 16 characters, without spaces').optional(),
});

export type FileValues = z.output<typeof fileSchema>;
export type ProviderValues = z.output<typeof provider>;
export type ModelValues = z.output<typeof modelRow>;
