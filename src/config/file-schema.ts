/**
 * The schema of gateway.yaml. It defines the keys, types and ranges, and what docs/configuration.md says about each
 * setting (`node scripts/write-configuration.js`). `load.ts` checks references between its parts and applies the
 * defaults.
 */
import { z } from 'zod';
import { routes } from '../core/call.ts';
import { tagName } from '../core/tags.ts';
import { takeableFields } from '../core/takeable-fields.ts';

/** Matches one token, or several while you rotate them. */
export const adminTokensPattern = /^[\x21-\x7e]{16,}(?:\s+[\x21-\x7e]{16,})*$/;
export const adminTokensMessage = 'must have at least 16 characters; several tokens are separated by spaces or line breaks';

/** Defines an optional setting with its meaning and its default, both in Markdown. */
function setting<Schema extends z.ZodType>(schema: Schema, meaning: string, byDefault?: string): z.ZodOptional<Schema> {
  return schema.optional().meta({ description: meaning, ...(byDefault !== undefined && { byDefault }) });
}

const milliseconds = z.int().min(1).max(3_600_000);
/** Model ids are keys in the database, so their length is limited and they have to be valid PostgreSQL text. */
export const modelId = z
  .string()
  .max(300, { abort: true })
  .regex(/^[^/\s\p{C}]+\/[^\s\p{C}]+$/u, 'must be a model as <provider>/<model>')
  .meta({ title: '<provider>/<model>' });
const tierName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, 'a tier is named with letters, digits, ".", "_" and "-"')
  .refine((name) => name !== 'auto', '"auto" is reserved: it lets the gateway choose a tier')
  .meta({ title: '<tier>' });
const tiers = z.record(tierName, z.array(modelId).min(1));
const headerName = z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, 'is not a valid header name');
/** Matches framing and connection headers, because the HTTP client sets these. */
const connectionHeaders = /^(?:connection|content-length|expect|host|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade)$/i;
const fixedHeader = headerName.refine((name) => !connectionHeaders.test(name), 'this header is set by the HTTP connection');
const apiKey = z.string().regex(/^[\x21-\x7e]+$/, 'must be visible characters without spaces or line breaks');
const headerValue = z.string().regex(/^[\t\x20-\x7e]*$/, 'contains a character that is not allowed in headers');
/** A number or decimal text. `catalog.ts` parses the source text of numbers. */
const amount = z.union([z.number(), z.string()]).meta({ title: 'USD' });
const factor = z.union([z.number(), z.string()]).meta({ title: 'decimal number' });
const tokenPrices = {
  input: setting(amount, 'per million input tokens; needed with every other token price'),
  output: setting(amount, 'per million output tokens; needed with `input` for chat models'),
  cached_input: setting(amount, 'per million input tokens that the vendor read from its cache', '`input`'),
  cache_write: setting(amount, 'per million input tokens written to its cache', '`input`; 1.25 times `input` with the dialect `messages`'),
  cache_write_1h: setting(amount, 'the same, kept for an hour', '`cache_write`; 2 times `input` with the dialect `messages`'),
};
/** The name of a service tier, or of a tool that the vendor runs. */
const extraName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, 'is a name of letters, digits, ".", "_" and "-"');
const tokenCount = z.int().min(1).max(100_000_000);
const builtIn = "that of the vendor's built-in row";

/** A path of the gateway's own API after `/v1`. */
const standardPath = z
  .string()
  .regex(/^\/[a-z_]+(?:\/[a-z_]+)*$/, 'is a path of the dialect, such as /chat/completions')
  .meta({ title: '<path>' });
const pathTemplate = z.string().regex(/^\/[^?#\s\\]*$/, 'must be a path that begins with /, without ? and #');
const betaFlag = z.string().regex(/^[A-Za-z0-9._-]{1,100}$/, 'must be the name of a flag');

const provider = z.strictObject({
  vendor: setting(
    z.string(),
    'name of a [known vendor](vendors.md#known-vendors), whose address, format and models then apply',
    'the known vendor at `base_url`, if there is one',
  ),
  base_url: setting(
    z.string(),
    '`http://` or `https://` address including the version prefix; the path of the route is appended',
    'the address of the `vendor`, if it has only one',
  ),
  api_key: setting(apiKey.nullable(), 'API key of the vendor', 'none is sent'),
  dialect: setting(
    z.enum(['chat', 'messages', 'gemini']),
    "format of the vendor: OpenAI's, Anthropic's, or Google's for videos",
    'that of the vendor, if it is a known one',
  ),
  serves: setting(
    z.array(z.enum(routes)),
    'routes that the vendor has. `/v1/responses` is translated to chat for a vendor without `responses`',
    'all of the dialect but `video` for `chat`',
  ),
  tags: setting(
    z.array(tagName).max(32),
    'what projects and keys may require of the provider, such as `eu` or `zero-retention` ([required tags](architecture/routing-and-failover.md#required-tags))',
    'none',
  ),
  auth: setting(
    z.strictObject({
      header: fixedHeader.describe('header of the API key'),
      scheme: setting(headerValue.min(1).nullable(), 'what precedes the key, such as `Bearer`', 'the bare key'),
    }),
    'how the API key is sent',
    '`authorization: Bearer`, `x-api-key` with `messages`, `x-goog-api-key` with `gemini`',
  ),
  headers: setting(z.record(fixedHeader, headerValue), 'further headers for the vendor', 'none'),
  query: setting(z.record(z.string().min(1), z.string()), 'query parameters of every address, such as `api-version`', "the vendor's"),
  paths: setting(
    z.record(standardPath, pathTemplate.nullable()),
    'paths in place of the standard ones, such as `/chat/completions: /deployments/{model}/chat/completions`; `null` if the vendor does not have the route',
    "the vendor's",
  ),
  stream_paths: setting(z.record(standardPath, pathTemplate), 'the same for streamed requests', "the vendor's, else `paths`"),
  model_names: setting(
    z.record(z.string().min(1), z.string().min(1)),
    'names of models at this vendor, such as the names of deployments: `gpt-4o: my-deployment`',
    'the names in the catalog',
  ),
  beta_flags: setting(
    z.strictObject({
      allowed: setting(z.array(betaFlag).nullable(), 'flags that are forwarded; `null` forwards all of them', "the vendor's"),
      aliases: setting(z.record(betaFlag, betaFlag), 'names that the vendor has for flags', "the vendor's"),
    }),
    'which flags of `anthropic-beta` the vendor gets; `x-gateway-dropped` names the others',
    "the vendor's, else all of them",
  ),
  connect_timeout_ms: setting(milliseconds, 'longest wait for a connection', '`5000`'),
  first_byte_timeout_ms: setting(milliseconds, 'longest wait for the headers of the response', '`300000`'),
  idle_timeout_ms: setting(milliseconds, 'longest pause within a response', '`60000`'),
  first_content_timeout_ms: setting(
    milliseconds,
    'longest wait for text, a tool call or reasoning, after which the next model of the chain is called ([first content](architecture/routing-and-failover.md#first-content))',
    'none',
  ),
  image_shape: setting(
    z.enum(['openai', 'artifacts']),
    'format of image requests; `artifacts` appends the model to the address ([vendors](vendors.md#artifacts))',
    '`openai`',
  ),
  image_response_format: setting(
    z.boolean(),
    'whether models that take `response_format` get `b64_json`; `false` sends it to none',
    '`true`',
  ),
  speech_shape: setting(z.enum(['openai', 'voice']), 'format of speech requests ([vendors](vendors.md#voice))', '`openai`'),
  speech_media_type: setting(
    z.string().regex(/^[\w.+-]+\/[\w.+-]+/, 'must be a media type'),
    'media type of speech, where the vendor sends none or a wrong one',
    "the vendor's",
  ),
  speech: setting(
    z.strictObject({
      voice_in: setting(z.enum(['path', 'query']), 'where the voice is sent', '`path`'),
      path: setting(z.string().startsWith('/'), 'path after `base_url`', '`/text-to-speech/{voice}`; `/speak` with `voice_in: query`'),
      text_field: setting(z.string().min(1), 'member of the text', '`text`'),
      body: setting(z.record(z.string(), z.unknown()), 'fixed members of the body', 'none'),
    }),
    'details of `speech_shape: voice`',
  ),
  asset_hosts: setting(
    z.array(z.string().regex(/^[A-Za-z0-9.-]+(?::\d+)?$/, 'must be a host, without a scheme')),
    "further hosts from which the vendor's files are downloaded",
    'that of `base_url` alone',
  ),
});

export const modelRow = z.strictObject({
  kind: setting(
    z.enum(['chat', 'embeddings', 'moderations', 'rerank', 'images', 'speech', 'transcriptions', 'video']),
    'what the model is for',
    'derived from `per_image`, `per_million_characters`, `per_second` and `per_search`, else `chat`',
  ),
  ...tokenPrices,
  above_tokens: setting(
    z.record(z.string().regex(/^\d+$/, 'must be a number of tokens').meta({ title: '<tokens>' }), z.strictObject(tokenPrices)),
    'prices of calls whose input has more tokens than the key says',
  ),
  max_output_tokens: setting(
    tokenCount,
    'most tokens of a response; a call without a limit reserves their cost',
    `${builtIn}, else \`context_window\`, at most 131,072`,
  ),
  service_tiers: setting(
    z.record(extraName.meta({ title: '<tier>' }), factor),
    'factors of the token prices in other service tiers of the vendor, such as `priority: 2` ([extra charges](vendors.md#extra-charges))',
    builtIn,
  ),
  per_tool_use: setting(
    z.record(extraName.meta({ title: '<tool>' }), amount),
    'per use of a tool that the vendor runs, such as `web_search: 0.01`',
    builtIn,
  ),
  image_tokens: setting(
    tokenCount,
    'most input tokens of one image; of the kind `images`, most tokens of one image of 1024x1536 or smaller',
    'that of the family of the model ([image tokens](vendors.md#image-tokens)), else `5000`',
  ),
  max_input_tokens: setting(tokenCount, 'most tokens of a prompt; longer ones skip the model', builtIn),
  context_window: setting(tokenCount, 'tokens of prompt and requested output together, where the vendor checks their sum', builtIn),
  first_content_timeout_ms: setting(
    milliseconds,
    'longest wait for text, a tool call or reasoning ([first content](architecture/routing-and-failover.md#first-content))',
    'that of the provider',
  ),
  supports_schema: setting(
    z.boolean(),
    'dialect `messages`: accepts `output_config.format`; otherwise a forced tool call asks for JSON',
    builtIn,
  ),
  thinking: setting(z.enum(['budget', 'adaptive', 'none']), 'dialect `messages`: form of thinking', builtIn),
  reasons: setting(z.boolean(), 'dialect `chat`: accepts `reasoning_effort`', builtIn),
  takes_reasoning: setting(
    z.enum(['none', 'text', 'details']),
    'dialect `chat`: form in which reasoning of earlier turns is sent ([reasoning](architecture/translation.md#reasoning))',
    builtIn,
  ),
  serves: setting(
    z.array(z.enum(['chat', 'messages', 'responses'])).min(1),
    'routes of a chat model; calls of the others use the next model of the chain',
    `${builtIn}, else all of its provider`,
  ),
  takes: setting(
    z.array(z.enum([...takeableFields.images, ...takeableFields.speech])),
    'optional fields that are forwarded to an image or speech model ([media fields](api/reference.md#media-fields))',
    builtIn,
  ),
  image_input: setting(amount, 'per million image tokens in the input of image edits', '`input`'),
  per_image: setting(amount, 'per image'),
  per_million_characters: setting(amount, 'per million characters of text, for speech'),
  per_second: setting(amount, 'per second of video or audio'),
  per_search: setting(amount, 'per search of a rerank'),
  per_million_tokens: setting(amount, 'one price for tokens of every kind, instead of `input` and `output`'),
});

const providerName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, 'a provider is named with letters, digits, ".", "_" and "-"')
  .meta({ title: '<provider>' });

/** An origin exactly as browsers send it, because we compare it byte for byte. */
const origin = z
  .string()
  .refine((text) => text === '*' || (!text.includes('*') && URL.canParse(text) && /^https?:/.test(text) && new URL(text).origin === text), {
    message: 'must be an origin such as https://app.example.com, without a path or a final slash, or "*" for all',
  });

export const fileSchema = z.strictObject({
  providers: setting(
    z.record(providerName, provider),
    'the vendors',
    'those with an API key in the environment, with built-in models and tiers; with `start` and no key the demo vendor',
  ),
  models: setting(
    z.record(modelId, modelRow),
    'the catalog. A row replaces imported and built-in rows of the model',
    'built-in rows with list prices',
  ),
  tiers: setting(tiers, 'chains of models, in the order of attempts'),
  canaries: setting(
    z.record(
      tierName,
      z.strictObject({
        model: modelId.describe('model that is tried before those of the tier; a failure is followed by the chain of the tier'),
        share: z.number().min(0).max(1).describe('share of the conversations, such as `0.05`'),
      }),
    ),
    'another model for a share of the calls of a tier ([canaries](architecture/routing-and-failover.md#canaries))',
    'none',
  ),
  image_tiers: setting(tiers, 'the same for images'),
  speech_tiers: setting(tiers, 'the same for speech'),
  transcription_tiers: setting(tiers, 'the same for transcriptions'),
  defaults: setting(
    z.strictObject({
      image_provider: setting(z.string(), 'provider of images', 'the first that serves them'),
      speech_provider: setting(z.string(), 'provider of speech', 'the first that serves it'),
      transcription_provider: setting(z.string(), 'provider of transcriptions', 'the first that serves them'),
      video_provider: setting(z.string(), 'provider of videos', 'the first that serves them'),
      video_model: setting(z.string().min(1), 'model of videos, without the provider'),
    }),
    'what media calls use that do not name it',
  ),
  auto: setting(
    z.strictObject({
      classifier: setting(z.enum(['rules', 'model', 'off']), 'how the tier is chosen', '`rules`'),
    }),
    'the model `auto` ([routing](architecture/routing-and-failover.md))',
  ),
  catalog_fill: setting(z.boolean(), 'substitute catalog models when no provider of the project serves the chain', '`true`'),
  on_budget_store_down: setting(
    z.enum(['allow', 'refuse']),
    'calls while the counters of ceilings cannot be reached: admitted up to a tenth of each ceiling and recorded, or 503; projects and keys may choose otherwise',
    '`allow`',
  ),
  error_retention_days: setting(
    z.int().min(1).max(365),
    'days for which the [reason of a failed attempt](operating.md#failed-calls) is kept; less where the project deletes its conversations earlier',
    '`30`',
  ),
  memory: setting(
    z.strictObject({
      idle_minutes: setting(z.number().positive().max(1_440), 'pause after which a conversation has ended', '`10`'),
      recall_deadline_ms: setting(z.int().min(1).max(60_000), 'longest wait of a call for its memories', '`800`'),
      retry: setting(
        z.strictObject({
          first_minutes: setting(z.number().positive().max(1_440), 'the first delay', '`1`'),
          factor: setting(z.number().min(1).max(10), 'growth of the delay', '`2`'),
          longest_minutes: setting(z.number().positive().max(10_080), 'the longest delay', '`360`'),
        }),
        'delays between the attempts of a learning batch',
      ),
    }),
    'memory of the whole deployment; each project has [settings](memory.md#turn-it-on) too',
  ),
  cors: setting(
    z.strictObject({
      origins: z
        .array(origin)
        .max(100)
        .describe('origins of web pages that may call `/v1/*`, `/status/peek` and `/usage/me` with a virtual key; `"*"` for all'),
    }),
    'access for pages of other origins',
    'none',
  ),
  public_url: setting(z.string(), 'scheme and host under which browsers reach the gateway; needed with `oidc`', 'as requests name it'),
  oidc: setting(
    z.strictObject({
      issuer: setting(z.string(), 'its `https://` address'),
      client_id: setting(z.string().min(1), 'client that is registered there; needed with `issuer`'),
      client_secret: setting(z.string().min(1), 'secret of that client', 'none: a public client'),
      allowed_domains: setting(
        z.array(z.string()),
        'domains whose verified e-mail addresses get an account at their first sign-in',
        'none',
      ),
    }),
    '[identity provider](architecture/people.md#identity-provider) of the console',
  ),
  admin_token: setting(
    z.string().trim().regex(adminTokensPattern, adminTokensMessage),
    'token of `/provision` and the command line, at least 16 characters',
    'that of `GATEWAY_ADMIN_TOKEN`',
  ),
});

export type FileValues = z.output<typeof fileSchema>;
export type ProviderValues = z.output<typeof provider>;
export type ModelValues = z.output<typeof modelRow>;

/** Returns the JSON Schema of gateway.yaml. `byDefault` of a member tells what applies if it's missing. */
export function describeFile(): object {
  return z.toJSONSchema(fileSchema, { io: 'input' });
}
