/** Gets access tokens from Google, by the application default credentials or a credentials file. */
import type { AuthClient } from 'google-auth-library';
import type { GoogleIdentitySettings } from '../../core/cloud-identity.ts';
import { asObject, asString } from '../../core/json/narrow.ts';
import { createBearerCredential, type LoadCredential } from './credential.ts';

/** The longest lifetime that every project allows. */
const impersonatedLifetime = '3600s';

export function createGoogleLoader({ scopes, credentialsFile, impersonate }: GoogleIdentitySettings): LoadCredential {
  return async () => {
    // We create the client anew each time, because it would otherwise return the same token until it nearly expires.
    const client = await createClient(scopes, credentialsFile);
    if (impersonate !== null) return requestImpersonated(client, impersonate, scopes);
    // The headers may also name the project that is billed for the quota.
    const { authorization = '', ...headers } = Object.fromEntries(await client.getRequestHeaders());
    const token = authorization.replace(/^Bearer /i, '');
    if (token === '') throw new Error('Google returned no access token');
    return createBearerCredential(token, client.credentials.expiry_date ?? null, headers);
  };
}

async function createClient(scopes: readonly string[], credentialsFile: string | null): Promise<AuthClient> {
  const { BaseExternalAccountClient, GoogleAuth, gcpMetadata, JWT } = await import('google-auth-library');
  // Without a project, the library would run `gcloud` to find it. Tokens don't depend on it.
  const auth = new GoogleAuth({ scopes: [...scopes], projectId: 'unused' });
  if (credentialsFile === null) {
    // The library would otherwise never look for the metadata server again if it wasn't available at the start.
    gcpMetadata.resetIsAvailableCache();
    return auth.getClient();
  }
  // The library reads GOOGLE_APPLICATION_CREDENTIALS in this way too. The option `keyFilename` prints a warning each
  // time, because the file could come from a stranger.
  const client = await auth._getApplicationCredentialsFromFilePath(credentialsFile);
  if (client instanceof JWT || client instanceof BaseExternalAccountClient) client.scopes = [...scopes];
  return client;
}

/** The library's own class for this prints a warning each time. */
async function requestImpersonated(client: AuthClient, account: string, scopes: readonly string[]) {
  const { data } = await client.request({
    url: `https://iamcredentials.${client.universeDomain}/v1/projects/-/serviceAccounts/${account}:generateAccessToken`,
    method: 'POST',
    data: { scope: scopes, lifetime: impersonatedLifetime },
  });
  const { accessToken, expireTime } = asObject(data);
  const token = asString(accessToken);
  if (token === null) throw new Error(`Google returned no access token of ${account}`);
  return createBearerCredential(token, Date.parse(asString(expireTime) ?? '') || null);
}
