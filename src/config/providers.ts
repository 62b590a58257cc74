/** Builds providers from the rows of gateway.yaml. It applies the defaults of each dialect and checks the URLs. */
import type { Route } from '../core/call.ts';
import type { ResponsesSupport } from '../core/candidate.ts';
import { type MediaFormat, type RequestFormat, standardFormat, standardMedia } from '../core/request-format.ts';
import { trimEnd } from '../core/trim.ts';
import type { MemberConfig, ProviderConfig, ProviderDialect } from './config.ts';
import { buildEgress, type FindProxy } from './egress.ts';
import type { ProviderValues } from './file-schema.ts';
import { buildAuth, isCloudAuth } from './provider-auth.ts';
import { explainUnknownVendor, findVendorByAddress, findVendorByName } from './vendors/known-vendors.ts';
import type { VendorDescription } from './vendors/vendor-description.ts';
import type { AddError } from './yaml-file.ts';

/** The default of `serves` for each dialect. */
const servedByDefault: Readonly<Record<ProviderDialect, readonly Route[]>> = {
  chat: ['chat', 'embeddings', 'responses', 'moderations', 'rerank', 'images', 'speech', 'transcriptions'],
  messages: ['messages'],
  gemini: ['video'],
};

/** All routes that `serves` can contain. */
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

interface ProviderOptions {
  readonly addError: AddError;
  readonly findProxy: FindProxy;
}

export function buildProviders(
  values: Readonly<Record<string, ProviderValues>>,
  { addError, findProxy }: ProviderOptions,
): Record<string, ProviderConfig> {
  return Object.fromEntries(
    Object.entries(values).map(([name, row]) => [
      name,
      buildPool(name, row, { addError: (path, message) => addError(['providers', name, ...path], message), findProxy }),
    ]),
  );
}

/**
 * Builds a provider and the members of its pool. The provider gets the connection settings of the first member, for
 * code that doesn't know about members.
 */
function buildPool(name: string, { members, ...row }: ProviderValues, options: ProviderOptions): ProviderConfig {
  const { addError } = options;
  if (members === undefined) return buildProvider(name, row, options);
  const built = members.map((member, index): MemberConfig => {
    const { name: memberName, weight = 1, account = null, ...own } = member;
    const isOfMember = (key: unknown): boolean => Object.hasOwn(own, String(key)) || !Object.hasOwn(row, String(key));
    const addMemberError: AddError = (path, message) => {
      if (isOfMember(path[0])) addError(['members', index, ...path], message);
      // This setting comes from the provider, and all members inherit it, so only report the error once.
      else if (index === 0) addError(path, message);
    };
    // A member's own cloud identity replaces the provider's API key.
    const shared = own.auth && isCloudAuth(own.auth) ? { ...row, api_key: null } : row;
    const values = { ...shared, ...own, headers: { ...row.headers, ...own.headers } };
    const config = buildProvider(name, values, { ...options, addError: addMemberError });
    return { ...config, member: memberName, weight, account };
  });
  const [first, ...others] = built;
  for (const [index, { member, dialect }] of built.entries()) {
    if (built.findIndex((other) => other.member === member) < index)
      addError(['members', index, 'name'], 'is already the name of another member');
    if (dialect !== first?.dialect) addError(['members', index], `has the dialect ${dialect}, but the first member has ${first?.dialect}`);
  }
  if (built.every(({ weight }) => weight === 0)) addError(['members'], 'at least one member must have a weight above 0');
  if (!first) return buildProvider(name, row, options);
  const { member: _member, weight: _weight, account: _account, ...provider } = first;
  return { ...provider, members: [first, ...others] };
}

function buildProvider(name: string, row: ProviderValues, { addError, findProxy }: ProviderOptions): ProviderConfig {
  const vendor = findVendor(row, addError);
  const dialect = row.dialect ?? vendor?.dialect ?? 'chat';
  if (row.dialect === undefined && vendor === null) addError(['dialect'], 'is required, because this is not a known vendor');
  // A vendor's description only applies to one dialect. The vendor may have another dialect at a different address,
  // which the row can select.
  const description = vendor?.dialect === dialect ? vendor : null;
  const baseUrl = parseBaseUrl(row, vendor, addError);
  const media = buildMediaFormat(row, description, findVendorByAddress(baseUrl) !== null);
  const serves = row.serves ?? description?.serves ?? servedByDefault[dialect];
  for (const [index, served] of serves.entries()) {
    if (!servable[dialect].includes(served)) addError(['serves', index], `a provider with the ${dialect} dialect cannot serve ${served}`);
  }
  checkSpeech(row, media, addError);
  return {
    name,
    vendor: vendor?.name ?? null,
    baseUrl,
    egress: buildEgress(row, baseUrl, findProxy, addError),
    apiKey: row.api_key ?? null,
    dialect,
    serves,
    tags: row.tags ?? [],
    responses: findResponsesSupport(row, dialect, description),
    ...buildAuth(row, { baseUrl, vendor, byDefault: description?.auth ?? defaultAuth[dialect] }, addError),
    headers: buildHeaders(row, description, addError),
    requests: buildRequestFormat(row, description),
    connectTimeoutMs: row.connect_timeout_ms ?? 5_000,
    firstByteTimeoutMs: row.first_byte_timeout_ms ?? 300_000,
    idleTimeoutMs: row.idle_timeout_ms ?? 60_000,
    firstContentTimeoutMs: row.first_content_timeout_ms ?? null,
    ...media,
    assetHosts: parseAssetHosts(row.asset_hosts ?? [], addError),
    members: [],
  };
}

function findVendor({ vendor: name, base_url: baseUrl }: ProviderValues, addError: AddError): VendorDescription | null {
  if (name === undefined) return findVendorByAddress(baseUrl ?? '');
  const vendor = findVendorByName(name);
  if (vendor === null) addError(['vendor'], explainUnknownVendor(name));
  return vendor;
}

/**
 * Determines whether a provider has the responses route. If neither the row nor the vendor's description says so, the
 * gateway tries the route.
 */
function findResponsesSupport({ serves }: ProviderValues, dialect: ProviderDialect, vendor: VendorDescription | null): ResponsesSupport {
  if (serves !== undefined) return serves.includes('responses') ? 'native' : 'translated';
  return vendor?.responses ?? (dialect === 'chat' ? 'unknown' : 'translated');
}

/** The headers in a vendor's description can contain placeholders, which the row has to replace. */
function buildHeaders(row: ProviderValues, vendor: VendorDescription | null, addError: AddError): Record<string, string> {
  const own = Object.fromEntries(Object.entries(row.headers ?? {}).map(([header, value]) => [header.toLowerCase(), value]));
  const headers = { ...vendor?.headers, ...own };
  for (const [header, value] of Object.entries(vendor?.headers ?? {})) {
    if (/\{\w+\}/.test(value) && own[header] === undefined) addError(['headers'], `${header} is required for ${vendor?.title}`);
  }
  return headers;
}

function buildRequestFormat(row: ProviderValues, vendor: VendorDescription | null): RequestFormat {
  const format = { ...standardFormat, ...vendor?.requests };
  const flags = row.beta_flags;
  return {
    ...format,
    paths: { ...format.paths, ...row.paths },
    // A path in the row also applies to streamed requests, unless the row has a separate path for those.
    streamPaths: { ...omitKeys(format.streamPaths, row.paths ?? {}), ...row.stream_paths },
    query: { ...format.query, ...row.query },
    modelNames: row.model_names ?? format.modelNames,
    betaFlags: flags
      ? {
          allowed: flags.allowed === undefined ? (format.betaFlags?.allowed ?? null) : flags.allowed,
          aliases: { ...format.betaFlags?.aliases, ...flags.aliases },
          isInBody: format.betaFlags?.isInBody ?? false,
        }
      : format.betaFlags,
  };
}

/**
 * Some vendors send us to another host to fetch an image, and that host receives the provider's key. We only do this if
 * the provider's address is the vendor's own.
 */
function buildMediaFormat(row: ProviderValues, vendor: VendorDescription | null, isOwnHost: boolean): MediaFormat {
  const { imageJobsOrigin, ...media } = vendor?.media ?? {};
  const format = { ...standardMedia, ...media, ...(isOwnHost && imageJobsOrigin && { imageJobsOrigin }) };
  const { voice_in: voiceIn, path, text_field: textField, body } = row.speech ?? {};
  const { speech } = format;
  return {
    ...format,
    imageShape: row.image_shape ?? format.imageShape,
    imageResponseFormat: row.image_response_format ?? format.imageResponseFormat,
    speechShape: row.speech_shape ?? format.speechShape,
    speechMediaType: row.speech_media_type ?? format.speechMediaType,
    speech: {
      voiceIn: voiceIn ?? speech.voiceIn,
      path: path ?? (voiceIn === 'query' ? '/speak' : speech.path),
      textField: textField ?? speech.textField,
      body: body ?? speech.body,
    },
  };
}

function omitKeys(from: Readonly<Record<string, string>>, keys: object): Record<string, string> {
  return Object.fromEntries(Object.entries(from).filter(([key]) => !Object.hasOwn(keys, key)));
}

function parseAssetHosts(hosts: readonly string[], addError: AddError): string[] {
  for (const [index, host] of hosts.entries()) if (!URL.canParse(`https://${host}`)) addError(['asset_hosts', index], 'must be a host');
  return hosts.map((host) => host.toLowerCase());
}

/**
 * Checks the `speech` settings, which are only allowed with the speech shape `voice`. The path has to be valid, and the
 * additional body fields can't replace the text field.
 */
function checkSpeech({ speech }: ProviderValues, { speechShape }: MediaFormat, addError: AddError): void {
  if (speech === undefined) return;
  if (speechShape !== 'voice') addError(['speech'], 'requires speech_shape: voice');
  const { path, text_field: textField = 'text', body = {} } = speech;
  if (path !== undefined && !URL.canParse(`https://host${path.replaceAll('{voice}', 'x')}`)) addError(['speech', 'path'], 'must be a path');
  if (path?.includes('#')) addError(['speech', 'path'], 'must not contain #');
  if (Object.hasOwn(body, textField)) addError(['speech', 'body', textField], 'has the same name as the text field');
}

/** Strips trailing slashes. Errors don't quote the URL, because it can contain a password. */
function parseBaseUrl({ base_url: own }: ProviderValues, vendor: VendorDescription | null, addError: AddError): string {
  const text = own ?? vendor?.baseUrl ?? '';
  const url = URL.canParse(text) ? new URL(text) : null;
  if (own === undefined && (vendor === null || /[{}]/.test(text)))
    addError(['base_url'], vendor === null ? 'is required' : `is required for ${vendor.title}, such as ${text}`);
  else if (!url || (url.protocol !== 'https:' && url.protocol !== 'http:'))
    addError(['base_url'], 'must be an address with http:// or https://');
  else if (text !== text.trim()) addError(['base_url'], 'must not begin or end with a space');
  else if (url.username !== '' || url.password !== '')
    addError(['base_url'], 'must not contain a user or password; use api_key, auth or headers');
  else if (url.search !== '' || url.hash !== '')
    addError(['base_url'], 'must end with the path, without ? and #; parameters such as api-version belong in query');
  else if (/[{}]|%7[bd]/i.test(text)) addError(['base_url'], 'contains a placeholder in braces that must be replaced with a value');
  return trimEnd(text, '/');
}
