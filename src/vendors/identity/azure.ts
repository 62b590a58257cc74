/** Gets access tokens from Microsoft Entra ID. */
import type { TokenCredential } from '@azure/identity';
import type { AzureIdentitySettings } from '../../core/cloud-identity.ts';
import { createBearerCredential, type LoadCredential } from './credential.ts';

export function createAzureLoader(settings: AzureIdentitySettings): LoadCredential {
  return async () => {
    const credential = await createCredential(settings, process.env);
    const { token, expiresOnTimestamp } = await credential.getToken(settings.scope).then((result) => {
      if (result === null) throw new Error('Entra ID returned no access token');
      return result;
    });
    return createBearerCredential(token, expiresOnTimestamp);
  };
}

/**
 * Chooses a credential by the environment variables that Azure's own tools use, in the order of the default chain. We
 * create a new one each time, because a credential returns the same token until shortly before the token expires.
 * Secrets and certificates can also be replaced at any time.
 */
async function createCredential(settings: AzureIdentitySettings, env: NodeJS.ProcessEnv): Promise<TokenCredential> {
  const azure = await import('@azure/identity');
  const tenantId = settings.tenantId ?? env.AZURE_TENANT_ID;
  const clientId = settings.clientId ?? env.AZURE_CLIENT_ID;
  const isApplication = tenantId !== undefined && clientId !== undefined;
  const { AZURE_CLIENT_SECRET: secret, AZURE_CLIENT_CERTIFICATE_PATH: certificatePath } = env;
  if (isApplication && secret) return new azure.ClientSecretCredential(tenantId, clientId, secret);
  if (isApplication && certificatePath) {
    const certificatePassword = env.AZURE_CLIENT_CERTIFICATE_PASSWORD;
    return new azure.ClientCertificateCredential(tenantId, clientId, {
      certificatePath,
      ...(certificatePassword !== undefined && { certificatePassword }),
    });
  }
  if (isApplication && env.AZURE_FEDERATED_TOKEN_FILE) return new azure.WorkloadIdentityCredential({ tenantId, clientId });
  return new azure.ManagedIdentityCredential(clientId === undefined ? {} : { clientId });
}
