/**
 * The schema of gateway.yaml. It defines the keys, types and ranges, and what docs/configuration.md says about each
 * setting (`node scripts/write-configuration.js`). `load.ts` checks references between its parts and applies the
 * defaults.
 */
import { z } from 'zod';
import { routes } from '../core/call.ts';
import { supportedParams } from '../core/supported-params.ts';
import { authSchema, fixedHeader, headerValue } from './auth-schema.ts';
import { setting } from './setting.ts';

/** Matches one token, or several while you rotate them. */
export const adminTokensPattern = /^[\x21-\x7e]{16,}(?:\s+[\x21-\x7e]{16,})*$/;
export const adminTokensMessage = 'must have at least 16 characters; several tokens are separated by spaces or line breaks';

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
const apiKey = z.string().regex(/^[\x21-\x7e]+$/, 'must be visible characters without spaces or line breaks');
/** A number or decimal text. `catalog.ts` parses the source text of numbers. */
const amount = z.union([z.number(), z.string()]).meta({ title: 'USD' });
const factor = z.union([z.number(), z.string()]).meta({ title: 'decimal number' });
const tokenPrices = {
  input: setting(amount, 'The price of a million input tokens. It is required if you set any other token price.'),
  output: setting(amount, 'The price of a million output tokens. Chat models need it if you set `input`.'),
  cached_input: setting(amount, 'The price of a million input tokens that the vendor reads from its cache.', '`input`'),
  cache_write: setting(
    amount,
    'The price of a million input tokens that the vendor writes to its cache.',
    '`input`; 1.25 times `input` with the dialect `messages`',
  ),
  cache_write_1h: setting(
    amount,
    'The price of a million input tokens that the vendor keeps in its cache for an hour.',
    '`cache_write`; 2 times `input` with the dialect `messages`',
  ),
};
/** The name of a service tier, or of a tool that the vendor runs. */
const extraName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, 'is a name of letters, digits, ".", "_" and "-"');
const tokenCount = z.int().min(1).max(100_000_000);
const builtIn = "from the vendor's built-in row";

/** A path of the gateway's own API after `/v1`. */
const standardPath = z
  .string()
  .regex(/^\/[a-z_]+(?:\/[a-z_]+)*$/, 'is a path of the dialect, such as /chat/completions')
  .meta({ title: '<path>' });
const pathTemplate = z.string().regex(/^\/[^?#\s\\]*$/, 'must be a path that begins with /, without ? and #');
const betaFlag = z.string().regex(/^[A-Za-z0-9._-]{1,100}$/, 'must be the name of a flag');

const memberName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, 'is a name of letters, digits, ".", "_" and "-"');

const ofProvider = 'from the provider';

const member = z.strictObject({
  name: memberName.describe('The name that logs, metrics and pages show.'),
  api_key: setting(apiKey.nullable(), 'The API key.', ofProvider),
  base_url: setting(z.string(), 'The address.', ofProvider),
  auth: setting(authSchema, 'How the gateway sends the API key.', ofProvider),
  headers: setting(z.record(fixedHeader, headerValue), "Additional headers. The provider's headers are sent as well.", 'none'),
  model_names: setting(
    z.record(z.string().min(1), z.string().min(1)),
    'The names of models at this member, such as the names of its deployments.',
    ofProvider,
  ),
  weight: setting(
    z.number().min(0).max(1_000_000),
    "The member's share of the calls, relative to the weights of the others. With `0`, it gets no new calls.",
    '`1`',
  ),
  account: setting(
    memberName,
    'The name of the vendor account. Members of one account share its rate limit and its prompt cache.',
    'an account of its own',
  ),
});

const provider = z.strictObject({
  vendor: setting(
    z.string(),
    'The name of a [known vendor](vendors.md#known-vendors), so that you do not have to configure its address, format and models.',
    'the known vendor at `base_url`, if there is one',
  ),
  base_url: setting(
    z.string(),
    'The `http://` or `https://` address of the vendor, including the version prefix. The gateway appends the path of the route.',
    'the address of the `vendor`, if it has only one',
  ),
  api_key: setting(apiKey.nullable(), 'The API key for the vendor.', 'no key is sent'),
  dialect: setting(
    z.enum(['chat', 'messages', 'gemini']),
    "The format that the vendor uses. `chat` is OpenAI's, `messages` is Anthropic's, and `gemini` is Google's format for videos.",
    'the dialect of the known vendor',
  ),
  serves: setting(
    z.array(z.enum(routes)),
    'The routes that the vendor has. If it does not have `responses`, the gateway translates `/v1/responses` to chat.',
    'all routes of the dialect, except `video` for `chat`',
  ),
  auth: setting(
    authSchema,
    'How the gateway sends the API key.',
    '`authorization: Bearer` with `chat`, `x-api-key` with `messages`, `x-goog-api-key` with `gemini`',
  ),
  headers: setting(z.record(fixedHeader, headerValue), 'Additional headers for the vendor.', 'none'),
  query: setting(
    z.record(z.string().min(1), z.string()),
    'Query parameters that the gateway adds to every address, such as `api-version`.',
    'from the known vendor',
  ),
  paths: setting(
    z.record(standardPath, pathTemplate.nullable()),
    'Paths that replace the standard ones, such as `/chat/completions: /deployments/{model}/chat/completions`. Use `null` if the vendor does not have the route.',
    'from the known vendor',
  ),
  stream_paths: setting(z.record(standardPath, pathTemplate), 'Paths for streamed requests.', 'from the known vendor, else `paths`'),
  model_names: setting(
    z.record(z.string().min(1), z.string().min(1)),
    'The names of models at this vendor, if they differ from the catalog. For example, `gpt-4o: my-deployment` names a deployment.',
    'the names in the catalog',
  ),
  beta_flags: setting(
    z.strictObject({
      allowed: setting(z.array(betaFlag).nullable(), 'The flags that are forwarded. `null` forwards all of them.', 'from the known vendor'),
      aliases: setting(z.record(betaFlag, betaFlag), 'Other names that this vendor uses for some flags.', 'from the known vendor'),
    }),
    'Which flags in `anthropic-beta` are forwarded to the vendor. `x-gateway-dropped` names the others.',
    'from the known vendor, else all of them',
  ),
  proxy: setting(
    z.string(),
    'The proxy for connections to this vendor, such as `http://user:password@proxy.example.com:3128`. With `none`, the gateway connects directly.',
    'from `HTTPS_PROXY` or `HTTP_PROXY`, unless `NO_PROXY` names the host',
  ),
  ca_file: setting(z.string().min(1), 'A PEM file with further certificate authorities that are trusted for this vendor.', 'none'),
  connect_timeout_ms: setting(milliseconds, 'How long the gateway waits for a connection.', '`5000`'),
  first_byte_timeout_ms: setting(milliseconds, 'How long the gateway waits for the headers of the response.', '`300000`'),
  idle_timeout_ms: setting(milliseconds, 'How long a response may pause.', '`60000`'),
  first_content_timeout_ms: setting(
    milliseconds,
    'How long the gateway waits for text, a tool call or reasoning before it calls the next model of the chain ([first content](architecture/routing-and-failover.md#first-content)).',
    'none',
  ),
  image_shape: setting(
    z.enum(['openai', 'artifacts']),
    'The format of image requests. With `artifacts`, the gateway appends the model to the address ([vendors](vendors.md#artifacts)).',
    '`openai`',
  ),
  image_response_format: setting(
    z.boolean(),
    'Whether the gateway sends `response_format: b64_json` to models that accept it. With `false`, it never does.',
    '`true`',
  ),
  speech_shape: setting(z.enum(['openai', 'voice']), 'The format of speech requests ([vendors](vendors.md#voice)).', '`openai`'),
  speech_media_type: setting(
    z.string().regex(/^[\w.+-]+\/[\w.+-]+/, 'must be a media type'),
    'The media type of speech, if the vendor sends none or a wrong one.',
    'from the response',
  ),
  speech: setting(
    z.strictObject({
      voice_in: setting(z.enum(['path', 'query']), 'The part of the address that contains the voice.', '`path`'),
      path: setting(
        z.string().startsWith('/'),
        'The path after `base_url`.',
        '`/text-to-speech/{voice}`, or `/speak` with `voice_in: query`',
      ),
      text_field: setting(z.string().min(1), 'The member of the body that contains the text.', '`text`'),
      body: setting(z.record(z.string(), z.unknown()), 'Members that the gateway adds to every body.', 'none'),
    }),
    'The details of requests with `speech_shape: voice`.',
  ),
  asset_hosts: setting(
    z.array(z.string().regex(/^[A-Za-z0-9.-]+(?::\d+)?$/, 'must be a host, without a scheme')),
    "Additional hosts from which the gateway may download the vendor's files.",
    'only the host of `base_url`',
  ),
  members: setting(
    z.array(member).min(1),
    'Several keys, deployments or regions of the vendor ([pools](architecture/routing-and-failover.md#pools)).',
    'none, the provider is the only one',
  ),
});

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
    z.record(extraName.meta({ title: '<tier>' }), factor),
    "Factors by which the token prices are multiplied in the vendor's other service tiers, such as `priority: 2` ([extra charges](vendors.md#extra-charges)).",
    builtIn,
  ),
  per_tool_use: setting(
    z.record(extraName.meta({ title: '<tool>' }), amount),
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
    'Whether a model of the dialect `messages` accepts `output_config.format`. If it does not, the gateway forces a tool call to get JSON.',
    builtIn,
  ),
  thinking: setting(
    z.enum(['budget', 'adaptive', 'none']),
    'How a model of the dialect `messages` thinks, either with a token budget, adaptively, or not at all.',
    builtIn,
  ),
  reasons: setting(z.boolean(), 'Whether a model of the dialect `chat` accepts `reasoning_effort`.', builtIn),
  takes_reasoning: setting(
    z.enum(['none', 'text', 'details']),
    'In which form the gateway sends the reasoning of earlier turns to a model of the dialect `chat` ([reasoning](architecture/translation.md#reasoning)).',
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
    'The vendors that the gateway can call.',
    'the vendors whose API keys are in the environment, with built-in models and tiers; without a key, `start` uses the demo vendor',
  ),
  models: setting(
    z.record(modelId, modelRow),
    'The model catalog. A row replaces the imported and built-in rows of the same model.',
    'built-in rows with list prices',
  ),
  tiers: setting(tiers, 'Chains of models, in the order in which the gateway tries them.'),
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
    'What happens to calls while the gateway cannot reach the counters of the ceilings. `allow` admits and records them, up to a tenth of each ceiling. `refuse` returns 503. Projects and keys can override this.',
    '`allow`',
  ),
  error_retention_days: setting(
    z.int().min(1).max(365),
    'How many days the gateway keeps the [reason of a failed attempt](operating.md#failed-calls). It keeps it for less time if the project deletes its conversations earlier.',
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
          longest_minutes: setting(z.number().positive().max(10_080), 'The longest delay.', '`360`'),
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
export type ProviderValues = z.output<typeof provider>;
export type ModelValues = z.output<typeof modelRow>;

/** Returns the JSON Schema of gateway.yaml. `byDefault` of a member tells what applies if it's missing. */
export function describeFile(): object {
  return z.toJSONSchema(fileSchema, { io: 'input' });
}
