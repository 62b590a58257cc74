/**
 * The schema of gateway.yaml. It defines the keys, types and ranges, and `node scripts/write-configuration.js`
 * generates docs/configuration.md from it. `load.ts` checks references between sections and applies the defaults.
 */
import { z } from 'zod';
import { supportedParams } from '../core/supported-params.ts';
import { milliseconds, providerRow, shortName } from './provider-schema.ts';
import { setting } from './setting.ts';

/** Matches one or more admin tokens. There are several while tokens are being rotated. */
export const adminTokensPattern = /^[\x21-\x7e]{16,}(?:\s+[\x21-\x7e]{16,})*$/;
export const adminTokensMessage = 'must have at least 16 characters; separate several tokens with spaces or line breaks';

/** Model ids are keys in the database, so they have to be valid PostgreSQL text and can't be too long. */
export const modelId = z
  .string()
  .max(300, { abort: true })
  .regex(/^[^/\s\p{C}]+\/[^\s\p{C}]+$/u, 'must be a model as <provider>/<model>')
  .meta({ title: '<provider>/<model>' });
const tierName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, 'a tier name may only contain letters, digits, ".", "_" and "-"')
  .refine((name) => name !== 'auto', '"auto" is reserved: it lets the gateway choose a tier')
  .meta({ title: '<tier>' });
const tiers = z.record(tierName, z.array(modelId).min(1));
/** Prices are numbers or strings. Floating-point numbers wouldn't be exact, so `catalog.ts` parses the source text. */
const amount = z.union([z.number(), z.string()]).meta({ title: 'USD' });
const factor = z.union([z.number(), z.string()]).meta({ title: 'decimal number' });
const tokenPrices = {
  input: setting(amount, 'The price of a million input tokens. It is required if you set any other token price.'),
  output: setting(amount, 'The price of a million output tokens. Chat models need it if you set `input`.'),
  cached_input: setting(amount, 'The price of a million input tokens that the vendor reads from its cache.', '`input`'),
  cache_write: setting(
    amount,
    'The price of a million input tokens that the vendor writes to its cache.',
    '`input`; 1.25 times `input` with the `messages` dialect',
  ),
  cache_write_1h: setting(
    amount,
    'The price of a million input tokens that the vendor keeps in its cache for an hour.',
    '`cache_write`; 2 times `input` with the `messages` dialect',
  ),
};
const tokenCount = z.int().min(1).max(100_000_000);
const builtIn = "from the vendor's built-in row";

export const modelRow = z.strictObject({
  kind: setting(
    z.enum(['chat', 'embeddings', 'moderations', 'rerank', 'images', 'speech', 'transcriptions', 'video']),
    'What the model is used for.',
    'follows from `per_image`, `per_million_characters`, `per_second` or `per_search`, else `chat`',
  ),
  ...tokenPrices,
  above_tokens: setting(
    z.record(z.string().regex(/^\d+$/, 'must be a number of tokens').meta({ title: '<tokens>' }), z.strictObject(tokenPrices)),
    'Prices for calls whose input has more tokens than the key says.',
  ),
  max_output_tokens: setting(
    tokenCount,
    'The most tokens that a response can have. If a call does not limit its output, the gateway reserves the cost of this many tokens.',
    `${builtIn}, else \`context_window\`, but at most 131,072`,
  ),
  service_tiers: setting(
    z.record(shortName.meta({ title: '<tier>' }), factor),
    "Factors by which the token prices are multiplied in the vendor's other service tiers, such as `priority: 2` ([extra charges](vendors.md#extra-charges)).",
    builtIn,
  ),
  per_tool_use: setting(
    z.record(shortName.meta({ title: '<tool>' }), amount),
    'The price for each use of a tool that the vendor runs, such as `web_search: 0.01`.',
    builtIn,
  ),
  image_tokens: setting(
    tokenCount,
    'The most tokens of one image in the input. For the kind `images`, the most tokens of one generated image of up to 1024x1536 pixels.',
    'from the family of the model ([image tokens](vendors.md#image-tokens)), else `5000`; with the kind `images`, `6240`',
  ),
  max_input_tokens: setting(tokenCount, 'The most tokens of a prompt. If a prompt is longer, the gateway skips the model.', builtIn),
  context_window: setting(
    tokenCount,
    'The most tokens of the prompt and the requested output together, if the vendor checks their sum.',
    builtIn,
  ),
  first_content_timeout_ms: setting(
    milliseconds,
    'How long the gateway waits for text, a tool call or reasoning ([first content](architecture/routing-and-failover.md#first-content)).',
    "the provider's setting",
  ),
  supports_schema: setting(
    z.boolean(),
    'Whether a model with the `messages` dialect accepts `output_config.format`. If it does not, the gateway forces a tool call to get JSON.',
    builtIn,
  ),
  thinking: setting(
    z.enum(['budget', 'adaptive', 'none']),
    'How a model with the `messages` dialect thinks, either with a token budget, adaptively, or not at all.',
    builtIn,
  ),
  reasons: setting(z.boolean(), 'Whether a model with the `chat` dialect accepts `reasoning_effort`.', builtIn),
  takes_reasoning: setting(
    z.enum(['none', 'text', 'details']),
    'In which form the gateway sends the reasoning of earlier turns to a model with the `chat` dialect ([reasoning](architecture/translation.md#reasoning)).',
    builtIn,
  ),
  serves: setting(
    z.array(z.enum(['chat', 'messages', 'responses'])).min(1),
    'The routes that a chat model has. Calls on other routes go to the next model of the chain.',
    `${builtIn}, else all routes of its provider`,
  ),
  takes: setting(
    z.array(z.enum([...supportedParams.images, ...supportedParams.speech])),
    'The optional fields that the gateway forwards to an image or speech model ([media fields](api/reference.md#media-fields)).',
    builtIn,
  ),
  image_input: setting(amount, 'The price of a million image tokens in the input of image edits.', '`input`'),
  per_image: setting(amount, 'The price of an image.'),
  per_million_characters: setting(amount, 'The price of a million characters of text, for speech.'),
  per_second: setting(amount, 'The price of a second of video or audio.'),
  per_search: setting(amount, 'The price of a search, for rerank.'),
  per_million_tokens: setting(amount, 'The price of a million tokens of any kind. Use it instead of `input` and `output`.'),
});

const providerName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, 'a provider name may only contain letters, digits, ".", "_" and "-"')
  .meta({ title: '<provider>' });

/** An origin, written exactly as browsers send it, because we compare it with the `origin` header byte by byte. */
const origin = z
  .string()
  .refine((text) => text === '*' || (!text.includes('*') && URL.canParse(text) && /^https?:/.test(text) && new URL(text).origin === text), {
    message: 'must be an origin such as https://app.example.com, without a path or trailing slash, or "*" to allow any origin',
  });

export const fileSchema = z.strictObject({
  providers: setting(
    z.record(providerName, providerRow),
    'The vendors that the gateway can call.',
    'the vendors whose API keys are in the environment, with built-in models and tiers; without a key, `start` uses the demo vendor',
  ),
  models: setting(
    z.record(modelId, modelRow),
    'The model catalog. A row replaces the imported and built-in rows of the same model.',
    'built-in rows with list prices',
  ),
  tiers: setting(tiers, 'Chains of models, in the order in which the gateway tries them.'),
  canaries: setting(
    z.record(
      tierName,
      z.strictObject({
        model: modelId.describe('The model that the chosen conversations try first. If it fails, the gateway calls the tier as usual.'),
        share: z.number().min(0).max(1).describe('The share of the conversations, such as `0.05`.'),
      }),
    ),
    'Another model for a share of the conversations of a tier ([canaries](architecture/routing-and-failover.md#canaries)).',
    'none',
  ),
  image_tiers: setting(tiers, 'Chains of models for images.'),
  speech_tiers: setting(tiers, 'Chains of models for speech.'),
  transcription_tiers: setting(tiers, 'Chains of models for transcriptions.'),
  defaults: setting(
    z.strictObject({
      image_provider: setting(z.string(), 'The provider for images.', 'the first one that serves them'),
      speech_provider: setting(z.string(), 'The provider for speech.', 'the first one that serves it'),
      transcription_provider: setting(z.string(), 'The provider for transcriptions.', 'the first one that serves them'),
      video_provider: setting(z.string(), 'The provider for videos.', 'the first one that serves them'),
      video_model: setting(z.string().min(1), 'The model for videos, without the provider.'),
    }),
    'Which provider and model the gateway uses if a media call does not name them.',
  ),
  auto: setting(
    z.strictObject({
      classifier: setting(z.enum(['rules', 'model', 'off']), 'How the gateway chooses the tier.', '`rules`'),
    }),
    'Settings of the model `auto` ([routing](architecture/routing-and-failover.md)).',
  ),
  catalog_fill: setting(
    z.boolean(),
    'Whether the gateway substitutes other models from the catalog if no provider of the project serves the chain.',
    '`true`',
  ),
  on_budget_store_down: setting(
    z.enum(['allow', 'refuse']),
    'What happens to calls while the gateway cannot reach the counters of the ceilings. `allow` admits and records them. Each process may admit a tenth of each ceiling on calls or cost, and all of an `rpm` or `tpm` ceiling. `refuse` returns 503. Projects and keys can override this.',
    '`allow`',
  ),
  error_retention_days: setting(
    z.int().min(1).max(365),
    'How many days the gateway keeps the [reason of a failed attempt](operating.md#failed-calls). It keeps it for less time if the project deletes its conversations earlier.',
    '`30`',
  ),
  refused_call_retention_days: setting(
    z.int().min(1).max(365),
    'How many days the gateway keeps [refused calls](operating.md#refused-calls) and their counts.',
    '`30`',
  ),
  memory: setting(
    z.strictObject({
      idle_minutes: setting(
        z.number().positive().max(1_440),
        'The number of minutes without a call after which a conversation is closed.',
        '`10`',
      ),
      recall_deadline_ms: setting(z.int().min(1).max(60_000), 'How long a call waits for its memories.', '`800`'),
      retry: setting(
        z.strictObject({
          first_minutes: setting(z.number().positive().max(1_440), 'The first delay.', '`1`'),
          factor: setting(z.number().min(1).max(10), 'The factor by which the delay grows after each attempt.', '`2`'),
          longest_minutes: setting(
            z.number().positive().max(10_080),
            'The longest delay. If the model keeps returning unusable responses, the delay grows to a day even if this is shorter.',
            '`360`',
          ),
        }),
        'The delays between the attempts of a learning batch.',
      ),
    }),
    'Memory settings for the whole deployment. Each project also has [its own](memory.md#turn-it-on).',
  ),
  cors: setting(
    z.strictObject({
      origins: z
        .array(origin)
        .max(100)
        .describe(
          'The origins of the web pages that may call `/v1/*`, `/status/peek` and `/usage/me` with a virtual key. `"*"` allows all origins.',
        ),
    }),
    'Lets web pages from other origins call the gateway.',
    'none',
  ),
  public_url: setting(
    z.string(),
    'The scheme and host under which browsers reach the gateway. It is required if you set `oidc`.',
    'taken from each request',
  ),
  oidc: setting(
    z.strictObject({
      issuer: setting(z.string(), 'The `https://` address of the identity provider.'),
      client_id: setting(z.string().min(1), 'The id of the client that you registered there. It is required if you set `issuer`.'),
      client_secret: setting(z.string().min(1), 'The secret of this client.', 'none, for a public client'),
      allowed_domains: setting(
        z.array(z.string()),
        'Domains whose people get an account when they first sign in with a verified e-mail address.',
        'none',
      ),
    }),
    'The [identity provider](architecture/people.md#identity-provider) for the console.',
  ),
  admin_token: setting(
    z.string().trim().regex(adminTokensPattern, adminTokensMessage),
    'The token for `/provision` and the command line, with at least 16 characters.',
    'the value of `GATEWAY_ADMIN_TOKEN`',
  ),
});

export type FileValues = z.output<typeof fileSchema>;
export type ProviderValues = z.output<typeof providerRow>;
export type ModelValues = z.output<typeof modelRow>;

/**
 * Returns the JSON Schema of gateway.yaml. For settings with a default, we add the property `byDefault`, which
 * describes the default.
 */
export function describeFile(): object {
  return z.toJSONSchema(fileSchema, { io: 'input' });
}
