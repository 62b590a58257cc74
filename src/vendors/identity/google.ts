/** Gets access tokens from Google, with the application default credentials or a credentials file. */
import type { AuthClient } from 'google-auth-library';
import type { GoogleIdentitySettings } from '../../core/cloud-identity.ts';
import { asObject, asString } from '../../core/json/narrow.ts';
import { createBearerCredential, type LoadCredential } from './credential.ts';

/** The longest lifetime that every Google Cloud project allows. */
const impersonatedLifetime = '3600s';

export function createGoogleLoader({ scopes, credentialsFile, impersonate }: GoogleIdentitySettings): LoadCredential {
  return async () => {
    // Create a new client each time, because a client returns the same token until shortly before it expires.
    const client = await createClient(scopes, credentialsFile);
    if (impersonate !== null) return requestImpersonated(client, impersonate, scopes);
    // Keep the other headers that the library returns, because one of them may name the project whose quota Google
    // should charge.
    const { authorization = '', ...headers } = Object.fromEntries(await client.getRequestHeaders());
    const token = authorization.replace(/^Bearer /i, '');
    if (token === '') throw new Error('Google returned no access token');
    return createBearerCredential(token, client.credentials.expiry_date ?? null, headers);
  };
}

async function createClient(scopes: readonly string[], credentialsFile: string | null): Promise<AuthClient> {
  const { BaseExternalAccountClient, GoogleAuth, gcpMetadata, JWT } = await import('google-auth-library');
  // Tokens don't depend on the project. But if we don't pass any project id, the library runs `gcloud` to find one.
  const auth = new GoogleAuth({ scopes: [...scopes], projectId: 'unused' });
  if (credentialsFile === null) {
    // Once the library hasn't found the metadata server, it never looks for it again unless this cache is reset.
    gcpMetadata.resetIsAvailableCache();
    return auth.getClient();
  }
  // The library does the same for the file in GOOGLE_APPLICATION_CREDENTIALS. If we passed it `keyFilename` instead, it
  // would warn us each time that the file could come from a stranger.
  const client = await auth._getApplicationCredentialsFromFilePath(credentialsFile);
  if (client instanceof JWT || client instanceof BaseExternalAccountClient) client.scopes = [...scopes];
  return client;
}

/** The library has a class for impersonation, but it prints a warning each time. */
async function requestImpersonated(client: AuthClient, account: string, scopes: readonly string[]) {
  const { data } = await client.request({
    url: `https://iamcredentials.${client.universeDomain}/v1/projects/-/serviceAccounts/${account}:generateAccessToken`,
    method: 'POST',
    data: { scope: scopes, lifetime: impersonatedLifetime },
  });
  const { accessToken, expireTime } = asObject(data);
  const token = asString(accessToken);
  if (token === null) throw new Error(`Google returned no access token for ${account}`);
  return createBearerCredential(token, Date.parse(asString(expireTime) ?? '') || null);
}
