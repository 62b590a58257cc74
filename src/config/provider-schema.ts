/** The schemas for a provider in gateway.yaml and for the members of its pool. */
import { z } from 'zod';
import { routes } from '../core/call.ts';
import { tagName } from '../core/tags.ts';
import { authSchema, fixedHeader, headerValue } from './auth-schema.ts';
import { setting } from './setting.ts';

export const milliseconds = z.int().min(1).max(3_600_000);
const apiKey = z.string().regex(/^[\x21-\x7e]+$/, 'must consist of printable ASCII characters without spaces or line breaks');

/** A path of OpenAI's or Anthropic's API, without the `/v1` at the beginning. */
const standardPath = z
  .string()
  .regex(/^\/[a-z_]+(?:\/[a-z_]+)*$/, 'must be a path of the dialect, such as /chat/completions')
  .meta({ title: '<path>' });
const pathTemplate = z.string().regex(/^\/[^?#\s\\]*$/, 'must be a path that begins with /, without ? and #');
const betaFlag = z.string().regex(/^[A-Za-z0-9._-]{1,100}$/, 'must be the name of a flag');

/** A short name, e.g. for a pool member, an account, a service tier, or a tool that runs at the vendor. */
export const shortName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, 'may only contain letters, digits, ".", "_" and "-"');

const ofProvider = 'from the provider';

const member = z.strictObject({
  name: shortName.describe('The name that logs, metrics and pages show.'),
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
    shortName,
    'The name of the vendor account. Members of one account share its rate limit and its prompt cache.',
    'an account of its own',
  ),
});

export const providerRow = z.strictObject({
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
  tags: setting(
    z.array(tagName).max(32),
    'Tags that projects and keys can require, such as `eu` or `zero-retention` ([required tags](architecture/routing-and-failover.md#required-tags)).',
    'none',
  ),
  auth: setting(
    authSchema,
    'How the gateway proves to the vendor who it is.',
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
    'from the known vendor, else `openai`',
  ),
  image_response_format: setting(
    z.boolean(),
    'Whether the gateway sends `response_format: b64_json` to models that accept it. With `false`, it never does.',
    '`true`',
  ),
  speech_shape: setting(
    z.enum(['openai', 'voice']),
    'The format of speech requests ([vendors](vendors.md#voice)).',
    'from the known vendor, else `openai`',
  ),
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
      text_field: setting(z.string().min(1), 'The field of the body that contains the text.', '`text`'),
      body: setting(z.record(z.string(), z.unknown()), 'Members that the gateway adds to every body.', 'none'),
    }),
    'The details of requests with `speech_shape: voice`.',
  ),
  asset_hosts: setting(
    z.array(z.string().regex(/^[A-Za-z0-9.-]+(?::\d+)?$/, 'must be a host without a scheme')),
    "Additional hosts from which the gateway may download the vendor's files.",
    'only the host of `base_url`',
  ),
  members: setting(
    z.array(member).min(1),
    'Several keys, deployments or regions of the vendor ([pools](architecture/routing-and-failover.md#pools)).',
    'none, the provider is the only one',
  ),
});
