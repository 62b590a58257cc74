/** Builds providers from the rows of the file. It applies the defaults of each dialect and checks the URLs. */
import type { Route } from '../core/call.ts';
import type { ResponsesSupport } from '../core/candidate.ts';
import type { ProviderConfig, ProviderDialect } from './config.ts';
import type { ProviderValues } from './file-schema.ts';
import type { Path } from './yaml-file.ts';

/** Adds an error at a path. */
export type AddError = (path: Path, message: string) => void;

/** What a provider of each dialect serves if its row doesn't set `serves`. */
const servedByDefault: Readonly<Record<ProviderDialect, readonly Route[]>> = {
  chat: ['chat', 'embeddings', 'responses', 'moderations', 'rerank', 'images', 'speech', 'transcriptions'],
  messages: ['messages'],
  gemini: ['video'],
};

/** Everything that a provider of each dialect can serve. */
const servable: Readonly<Record<ProviderDialect, readonly Route[]>> = {
  chat: [...servedByDefault.chat, 'video'],
  messages: ['messages'],
  gemini: ['video'],
};

const defaultAuth: Readonly<Record<ProviderDialect, ProviderConfig['auth']>> = {
  chat: { header: 'authorization', scheme: 'Bearer' },
  messages: { header: 'x-api-key', scheme: null },
  gemini: { header: 'x-goog-api-key', scheme: null },
};

export function buildProviders(values: Readonly<Record<string, ProviderValues>>, addError: AddError): Record<string, ProviderConfig> {
  return Object.fromEntries(
    Object.entries(values).map(([name, row]) => [
      name,
      buildProvider(name, row, (path, message) => addError(['providers', name, ...path], message)),
    ]),
  );
}

function buildProvider(name: string, row: ProviderValues, addError: AddError): ProviderConfig {
  const { dialect, auth, speech } = row;
  const serves = row.serves ?? servedByDefault[dialect];
  for (const [index, served] of serves.entries()) {
    if (!servable[dialect].includes(served)) addError(['serves', index], `a provider of the dialect ${dialect} cannot serve ${served}`);
  }
  checkSpeech(row, addError);
  return {
    name,
    baseUrl: parseBaseUrl(row.base_url, addError),
    apiKey: row.api_key ?? null,
    dialect,
    serves,
    responses: findResponsesSupport(row),
    // If the row sets a custom header, it receives the bare key, unless the row also sets a scheme.
    auth: auth ? { header: auth.header.toLowerCase(), scheme: auth.scheme ?? null } : defaultAuth[dialect],
    headers: Object.fromEntries(Object.entries(row.headers ?? {}).map(([header, value]) => [header.toLowerCase(), value])),
    connectTimeoutMs: row.connect_timeout_ms ?? 5_000,
    firstByteTimeoutMs: row.first_byte_timeout_ms ?? 300_000,
    idleTimeoutMs: row.idle_timeout_ms ?? 60_000,
    firstContentTimeoutMs: row.first_content_timeout_ms ?? null,
    imageShape: row.image_shape ?? 'openai',
    imageResponseFormat: row.image_response_format ?? true,
    speechShape: row.speech_shape ?? 'openai',
    speechMediaType: row.speech_media_type ?? null,
    speech: {
      voiceIn: speech?.voice_in ?? 'path',
      path: speech?.path ?? (speech?.voice_in === 'query' ? '/speak' : '/text-to-speech/{voice}'),
      textField: speech?.text_field ?? 'text',
      body: speech?.body ?? {},
    },
    assetHosts: parseAssetHosts(row.asset_hosts ?? [], addError),
  };
}

/**
 * Determines whether a provider has the responses route. OpenAI and Azure do. Other vendors do if their row says so. If
 * the row says nothing, it's unknown, so we try the vendor's route first.
 */
function findResponsesSupport({ dialect, serves, base_url: baseUrl }: ProviderValues): ResponsesSupport {
  if (serves !== undefined) return serves.includes('responses') ? 'native' : 'translated';
  if (dialect !== 'chat') return 'translated';
  const host = URL.canParse(baseUrl) ? new URL(baseUrl).hostname : '';
  return host === 'api.openai.com' || host.endsWith('.openai.azure.com') ? 'native' : 'unknown';
}

function parseAssetHosts(hosts: readonly string[], addError: AddError): string[] {
  for (const [index, host] of hosts.entries()) if (!URL.canParse(`https://${host}`)) addError(['asset_hosts', index], 'must be a host');
  return hosts.map((host) => host.toLowerCase());
}

/**
 * Checks the settings of the speech shape `voice`. The path has to be valid, and the fixed members of the body can't
 * include the text field.
 */
function checkSpeech({ speech_shape: shape, speech }: ProviderValues, addError: AddError): void {
  if (speech === undefined) return;
  if (shape !== 'voice') addError(['speech'], 'requires speech_shape: voice');
  const { path, text_field: textField = 'text', body = {} } = speech;
  if (path !== undefined && !URL.canParse(`https://host${path.replaceAll('{voice}', 'x')}`)) addError(['speech', 'path'], 'must be a path');
  if (path?.includes('#')) addError(['speech', 'path'], 'must not hold #');
  if (Object.hasOwn(body, textField)) addError(['speech', 'body', textField], 'collides with the text field');
}

/** Strips trailing slashes. The errors don't quote the URL, because it may contain a password. */
function parseBaseUrl(text: string, addError: AddError): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url || (url.protocol !== 'https:' && url.protocol !== 'http:'))
    addError(['base_url'], 'must be an address with http:// or https://');
  else if (text !== text.trim()) addError(['base_url'], 'must not begin or end with a space');
  else if (url.username !== '' || url.password !== '')
    addError(['base_url'], 'must not hold a user or password; use api_key, auth or headers');
  else if (url.search !== '' || url.hash !== '') addError(['base_url'], 'must end with the path, without ? and #');
  return text.replace(/\/+$/, '');
}
