/** Resolves a provider's `auth` setting to the header for its API key, or to the settings of its cloud identity. */
import type { CloudIdentitySettings } from '../core/cloud-identity.ts';
import type { AuthValues } from './auth-schema.ts';
import type { ProviderConfig } from './config.ts';
import type { ProviderValues } from './file-schema.ts';
import { findAwsRegion, isCloudHost } from './vendors/cloud-hosts.ts';
import type { VendorDescription } from './vendors/vendor-description.ts';
import type { AddError } from './yaml-file.ts';

interface AuthContext {
  readonly baseUrl: string;
  readonly vendor: Pick<VendorDescription, 'title' | 'identity'> | null;
  /** The header for the API key, unless the provider's row names another one. */
  readonly byDefault: ProviderConfig['auth'];
}

type CloudAuth = Extract<AuthValues, { type: 'aws' | 'google' | 'azure' }>;

export function buildAuth(
  { auth, api_key: apiKey }: Pick<ProviderValues, 'auth' | 'api_key'>,
  context: AuthContext,
  addError: AddError,
): Pick<ProviderConfig, 'auth' | 'identity'> {
  const { byDefault } = context;
  if (auth === undefined) return { auth: byDefault, identity: null };
  // A row that sets its own header has to set the scheme as well, because there's no default for it.
  if (!isCloudAuth(auth)) return { auth: { header: auth.header.toLowerCase(), scheme: auth.scheme ?? null }, identity: null };
  if (apiKey != null) addError(['api_key'], `cannot be combined with auth.type: ${auth.type}; remove one of them`);
  checkVendor(auth, context, addError);
  checkHost(auth, context, addError);
  return { auth: byDefault, identity: buildIdentity(auth, context, addError) };
}

export function isCloudAuth(auth: AuthValues): auth is CloudAuth {
  return auth.type !== undefined && auth.type !== 'key';
}

function checkVendor({ type }: CloudAuth, { vendor }: AuthContext, addError: AddError): void {
  if (vendor === null || vendor.identity?.type === type) return;
  const accepted = vendor.identity ? `type: ${vendor.identity.type} or an API key` : 'only an API key';
  addError(['auth', 'type'], `${vendor.title} accepts ${accepted}`);
}

/** Anybody who receives a token can use it. So before we send one, make sure that the host belongs to the cloud. */
function checkHost({ type, allow_hosts: allowed = [] }: CloudAuth, { baseUrl }: AuthContext, addError: AddError): void {
  if (!URL.canParse(baseUrl)) return;
  const { protocol, hostname } = new URL(baseUrl);
  if (allowed.some((host) => host.toLowerCase() === hostname)) return;
  if (!isCloudHost(type, hostname))
    addError(
      ['auth'],
      `${hostname} is not a host of ${type}, so the gateway does not send credentials to it; if you trust it, add it to auth.allow_hosts`,
    );
  else if (protocol !== 'https:') addError(['base_url'], 'must begin with https://, because the requests contain credentials');
}

function buildIdentity(auth: CloudAuth, { baseUrl, vendor }: AuthContext, addError: AddError): CloudIdentitySettings {
  const byVendor = vendor?.identity;
  if (auth.type === 'google')
    return {
      type: 'google',
      scopes: auth.scopes ?? ['https://www.googleapis.com/auth/cloud-platform'],
      credentialsFile: auth.credentials_file ?? null,
      impersonate: auth.impersonate ?? null,
    };
  if (auth.type === 'azure') {
    const vendorScope = byVendor?.type === 'azure' ? byVendor.scope : 'https://cognitiveservices.azure.com/.default';
    return {
      type: 'azure',
      tenantId: auth.tenant_id ?? null,
      clientId: auth.client_id ?? null,
      scope: auth.scope ?? vendorScope,
    };
  }
  const byDefault = byVendor?.type === 'aws' ? byVendor : { scheme: 'bearer' as const, service: 'bedrock' };
  const region = auth.region ?? (URL.canParse(baseUrl) ? findAwsRegion(new URL(baseUrl).hostname) : null);
  if (region === null) addError(['auth', 'region'], 'is required, because base_url does not name the region');
  if (auth.external_id !== undefined && auth.role_arn === undefined) addError(['auth', 'external_id'], 'requires role_arn');
  return {
    type: 'aws',
    region: region ?? '',
    profile: auth.profile ?? null,
    roleArn: auth.role_arn ?? null,
    externalId: auth.external_id ?? null,
    sessionName: auth.session_name ?? null,
    scheme: auth.scheme ?? byDefault.scheme,
    service: auth.service ?? byDefault.service,
  };
}
