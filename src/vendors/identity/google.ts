/** Gets access tokens from Google, by the application default credentials or a credentials file. */
import type { GoogleIdentitySettings } from '../../core/cloud-identity.ts';
import { createBearerCredential, type LoadCredential } from './credential.ts';

/** The longest lifetime that every project allows. */
const impersonatedSeconds = 3_600;

export function createGoogleLoader({ scopes, credentialsFile, impersonate }: GoogleIdentitySettings): LoadCredential {
  return async () => {
    const { GoogleAuth, gcpMetadata, Impersonated } = await import('google-auth-library');
    // The library would otherwise never look for the metadata server again if it wasn't available at the start.
    gcpMetadata.resetIsAvailableCache();
    // We create the client anew each time, because it would otherwise return the same token until it nearly expires.
    const auth = new GoogleAuth({ scopes: [...scopes], ...(credentialsFile !== null && { keyFilename: credentialsFile }) });
    const own = await auth.getClient();
    const client =
      impersonate === null
        ? own
        : new Impersonated({
            sourceClient: own,
            targetPrincipal: impersonate,
            targetScopes: [...scopes],
            lifetime: impersonatedSeconds,
            delegates: [],
          });
    // The headers may also name the project that is billed for the quota.
    const { authorization = '', ...headers } = Object.fromEntries(await client.getRequestHeaders());
    const token = authorization.replace(/^Bearer /i, '');
    if (token === '') throw new Error('Google returned no access token');
    return createBearerCredential(token, client.credentials.expiry_date ?? null, headers);
  };
}
