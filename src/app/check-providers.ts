/**
 * Checks the keys and addresses of all providers and pool members. The requests are free: we either list the vendor's
 * models or, if the vendor can't list them, send an empty body to its main route. Vendors reject an invalid key before
 * they reject the body.
 */
import type { ProviderCheck } from '../cli/check-config-command.ts';
import type { Config, ProviderConfig } from '../config/config.ts';
import { findVendorByName } from '../config/vendors/known-vendors.ts';
import { errorMessage } from '../core/error-messages.ts';
import { VendorError } from '../core/errors.ts';
import { asArray, asObject, asString } from '../core/json/narrow.ts';
import { parseJson } from '../core/json/parse.ts';
import { modelNameAt } from '../core/request-format.ts';
import { systemClock } from '../core/time.ts';
import { parseVendorError } from '../dialects/contract/vendor-error.ts';
import { routeCodecs } from '../dialects/routes/route-codecs.ts';
import { memberKey } from '../routing/pools.ts';
import { createVendorHttpClient, type VendorHttpClient } from '../vendors/http-client.ts';
import { sendAuthorized, type VendorIdentity } from '../vendors/identity/credential.ts';
import { createIdentities } from '../vendors/identity/identities.ts';
import { buildHeaders } from '../vendors/registry.ts';
import { firstVersion } from '../vendors/request-body.ts';
import { requestUrl } from '../vendors/request-url.ts';
import { collectSecrets, secretsOf, stripSecrets } from '../vendors/strip-secrets.ts';

interface CheckedProvider extends ProviderConfig {
  readonly credential: VendorIdentity | null;
}

interface Reply {
  readonly status: number;
  readonly message: string | null;
  readonly models: readonly string[];
}

const timeoutMs = 10_000;
const maxBytes = 4 * 1024 * 1024;
const videoPath = '/models/none:predictLongRunning';

export async function checkProviders(config: Config): Promise<ProviderCheck[]> {
  const httpClient = createVendorHttpClient();
  const identities = createIdentities({ clock: systemClock, logger: { info: () => undefined, warn: () => undefined } });
  try {
    const connections = Object.values(config.providers).flatMap((provider) =>
      (provider.members.length === 0 ? [provider] : provider.members).map((each) => ({
        connection: { ...each, name: 'member' in each ? memberKey(provider.name, each.member) : provider.name },
        models: listModels(config, provider.name),
      })),
    );
    identities.replace(connections.map(({ connection }) => connection));
    await identities.firstAttempts(timeoutMs);
    return await Promise.all(
      connections.map(({ connection, models }) =>
        checkProvider(httpClient, { ...connection, credential: identities.find(connection.name) }, models),
      ),
    );
  } finally {
    identities.close();
    await httpClient.close();
  }
}

async function checkProvider(httpClient: VendorHttpClient, provider: CheckedProvider, models: readonly string[]): Promise<ProviderCheck> {
  const checked = (works: boolean, message: string): ProviderCheck => ({ provider: provider.name, works, message });
  const { origin } = new URL(provider.baseUrl);
  try {
    const list = await send(httpClient, provider, { path: '/models', model: '' });
    const listsModels = findVendorByName(provider.vendor ?? '')?.listsModels ?? true;
    if (list.status === 200 && listsModels) {
      const names = models.map((model) => modelNameAt(provider.requests, model));
      const unlisted = names.filter((name) => list.models.length > 0 && !list.models.includes(name));
      const accepted = acceptance(provider);
      return unlisted.length === 0
        ? checked(true, `${accepted} and lists ${list.models.length} ${list.models.length === 1 ? 'model' : 'models'}`)
        : checked(false, `${accepted}, but doesn't list ${unlisted.join(', ')}; check the names of your models and model_names`);
    }
    const isMissing = [200, 404, 405, 501].includes(list.status);
    const path = provider.dialect === 'gemini' ? videoPath : routeCodecs[provider.dialect].path;
    const reply = isMissing
      ? await send(httpClient, provider, { path, model: modelNameAt(provider.requests, models[0] ?? 'none'), body: {} })
      : list;
    return explain(reply, provider, checked);
  } catch (error) {
    if (!(error instanceof VendorError)) throw error;
    if (error.isWithoutCredential)
      return checked(false, `${error.detail}; check auth, the identity of this machine, and HTTPS_PROXY and NO_PROXY`);
    const reason = error.detail ?? errorMessage(error);
    const advice = /certificate/.test(reason)
      ? "if your company's own CA issued the certificate, set ca_file"
      : 'check base_url, proxy and the network';
    return checked(false, `${origin}: ${reason}; ${advice}`);
  }
}

function explain(
  { status, message }: Reply,
  provider: ProviderConfig,
  checked: (works: boolean, message: string) => ProviderCheck,
): ProviderCheck {
  const { apiKey, baseUrl, identity, requests } = provider;
  const said = message === null ? '' : ` The vendor says: ${message}`;
  if (status === 401 && identity !== null)
    return checked(
      false,
      `the vendor rejected the credential of the ${identity.type} identity: check auth, the region and the permissions.${said}`,
    );
  if (status === 401 || (status === 400 && /\bkey\b.*\b(?:in)?valid\b|\binvalid\b.*\bkey\b/i.test(message ?? '')))
    return checked(
      false,
      `${apiKey === null ? 'the vendor requires an API key: set api_key' : 'the vendor rejected the API key: check api_key and auth'}.${said}`,
    );
  if (status === 403)
    return checked(false, `the credential is valid but lacks permission: check its roles, its project and the region.${said}`);
  if (status === 404) {
    const hasModelInPath = Object.values(requests.paths).some((path) => path?.includes('{model}'));
    const advice = hasModelInPath
      ? 'base_url, query, and whether the deployment or model exists'
      : 'that base_url includes the version prefix';
    return checked(false, `the vendor responded with 404 at ${baseUrl}: check ${advice}.${said}`);
  }
  if (status === 429)
    return checked(true, `the vendor is rate limiting requests, so the credential could not be checked; try again later.${said}`);
  if (status >= 500) return checked(false, `the vendor failed with status ${status}: try again later.${said}`);
  if (status >= 300 && status < 400)
    return checked(false, `the vendor redirects to another address (${status}): set base_url to that address`);
  return checked(true, acceptance(provider));
}

function acceptance({ apiKey, identity }: ProviderConfig): string {
  if (identity !== null) return 'the vendor accepted the credential';
  return apiKey === null ? 'the vendor accepts requests without a key' : 'the vendor accepted the API key';
}

interface CheckRequest {
  readonly path: string;
  readonly model: string;
  readonly body?: object;
}

/** Throws a VendorError if the vendor doesn't respond. */
async function send(httpClient: VendorHttpClient, provider: CheckedProvider, { path, model, body }: CheckRequest): Promise<Reply> {
  const bytes = body === undefined ? null : Buffer.from(JSON.stringify(body));
  const { status, body: response } = await sendAuthorized(
    httpClient,
    { identity: provider.credential },
    {
      url: requestUrl(provider, { path, model }),
      method: bytes === null ? 'GET' : 'POST',
      headers: {
        accept: 'application/json',
        'accept-encoding': 'identity',
        ...(bytes !== null && { 'content-type': 'application/json' }),
        ...(provider.dialect === 'messages' && { 'anthropic-version': firstVersion }),
        ...buildHeaders(provider),
      },
      body: bytes,
      ...{ connectTimeoutMs: Math.min(timeoutMs, provider.connectTimeoutMs), firstByteTimeoutMs: timeoutMs, idleTimeoutMs: timeoutMs },
      egress: provider.egress,
      signal: AbortSignal.timeout(2 * timeoutMs),
    },
  );
  const received = await response.readAll(maxBytes);
  const { message } = parseVendorError(received);
  const secrets = secretsOf({ secrets: collectSecrets(provider), identity: provider.credential });
  const json = asObject(parseJson(received.toString('utf8')));
  const models = asArray(json.data ?? json.models).flatMap(
    (row) => asString(asObject(row).id) ?? asString(asObject(row).name)?.replace(/^models\//, '') ?? [],
  );
  return { status, message: message === null ? null : stripSecrets(message, secrets).slice(0, 300), models };
}

function listModels({ tiers, canaries, imageTiers, speechTiers, transcriptionTiers }: Config, provider: string): string[] {
  const chains = [tiers, imageTiers, speechTiers, transcriptionTiers].flatMap((named) => Object.values(named).flat());
  chains.push(...Object.values(canaries).map(({ model }) => model));
  return [...new Set(chains.filter((id) => id.startsWith(`${provider}/`)).map((id) => id.slice(provider.length + 1)))];
}
