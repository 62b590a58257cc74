/** Gets access tokens from Google, with the application default credentials or a credentials file. */
import type { AuthClient } from 'google-auth-library';
import type { GoogleIdentitySettings } from '../../core/cloud-identity.ts';
import { asObject, asString } from '../../core/json/narrow.ts';
import { createBearerCredential, type LoadCredential } from './credential.ts';

/** The longest lifetime that is allowed in all Google Cloud projects. */
const impersonatedLifetime = '3600s';

export function createGoogleLoader({ scopes, credentialsFile, impersonate }: GoogleIdentitySettings): LoadCredential {
  return async () => {
    // Don't reuse a client. It would return the same token until shortly before it expires.
    const client = await createClient(scopes, credentialsFile);
    if (impersonate !== null) return requestImpersonated(client, impersonate, scopes);
    // Keep the remaining headers. One of them may name the project whose quota Google charges.
    const { authorization = '', ...headers } = Object.fromEntries(await client.getRequestHeaders());
    const token = authorization.replace(/^Bearer /i, '');
    if (token === '') throw new Error('Google returned no access token');
    return createBearerCredential(token, client.credentials.expiry_date ?? null, headers);
  };
}

async function createClient(scopes: readonly string[], credentialsFile: string | null): Promise<AuthClient> {
  const { BaseExternalAccountClient, GoogleAuth, gcpMetadata, JWT } = await import('google-auth-library');
  // Pass any project id, because the library would otherwise run `gcloud` to find one. Tokens don't depend on the
  // project.
  const auth = new GoogleAuth({ scopes: [...scopes], projectId: 'unused' });
  if (credentialsFile === null) {
    // If the metadata server wasn't available at the start, the library would never look for it again.
    gcpMetadata.resetIsAvailableCache();
    return auth.getClient();
  }
  // This is how the library itself reads GOOGLE_APPLICATION_CREDENTIALS. With `keyFilename` it would print a warning
  // each time, because that file could come from a stranger.
  const client = await auth._getApplicationCredentialsFromFilePath(credentialsFile);
  if (client instanceof JWT || client instanceof BaseExternalAccountClient) client.scopes = [...scopes];
  return client;
}

/** We don't use the library's own class for impersonation, because it prints a warning each time. */
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
