/** Gets AWS credentials from the default chain of the AWS SDK, and optionally assumes a role with them. */
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { AwsIdentitySettings } from '../../core/cloud-identity.ts';
import { asObject, asString } from '../../core/json/narrow.ts';
import { type Credential, createBearerCredential, type LoadCredential } from './credential.ts';
import type { ServerClock } from './server-clock.ts';
import { type AwsCredentials, createSigner, mintBedrockToken, signRequest } from './sign-request.ts';

/**
 * The longest lifetime of a token that AWS allows. A token expires earlier if the credentials that it was derived from
 * do.
 */
const tokenSeconds = 43_200;

export function createAwsLoader(settings: AwsIdentitySettings, clock: ServerClock): LoadCredential {
  const { region, scheme, service } = settings;
  return async () => {
    const { expiration, ...credentials } = await loadAwsCredentials(settings, clock);
    const expiresAtMs = expiration?.getTime() ?? null;
    const signer = await createSigner({ credentials, region, service: scheme === 'bearer' ? 'bedrock' : service });
    const secrets = [credentials.secretAccessKey, ...(credentials.sessionToken === undefined ? [] : [credentials.sessionToken])];
    if (scheme === 'bearer') {
      const token = await mintBedrockToken(signer, tokenSeconds, new Date(clock.now()));
      const tokenEndMs = clock.now() + tokenSeconds * 1_000;
      const bearer = createBearerCredential(token, Math.min(tokenEndMs, expiresAtMs ?? tokenEndMs));
      return { ...bearer, secrets: [...bearer.secrets, ...secrets] };
    }
    const credential: Credential = {
      authorize: (request) => signRequest(signer, request, new Date(clock.now())),
      expiresAtMs,
      secrets,
    };
    return credential;
  };
}

type StsOptions = Parameters<typeof import('@aws-sdk/credential-providers')['fromTemporaryCredentials']>[0];
type ClientPlugin = NonNullable<StsOptions['clientPlugins']>[number];

interface ExpiringCredentials extends AwsCredentials {
  readonly expiration?: Date;
}

/**
 * Creates a new provider each time, because the SDK's provider returns the same credentials until they nearly expire.
 */
async function loadAwsCredentials(
  { region, profile, roleArn, externalId, sessionName }: AwsIdentitySettings,
  clock: ServerClock,
): Promise<ExpiringCredentials> {
  const { fromNodeProviderChain, fromTemporaryCredentials } = await import('@aws-sdk/credential-providers');
  // Make Node's agents read HTTPS_PROXY and NO_PROXY, because the SDK doesn't.
  const agent = { proxyEnv: process.env };
  const requestHandler = { httpAgent: new HttpAgent(agent), httpsAgent: new HttpsAgent(agent) };
  const sts = { clientConfig: { region, requestHandler }, clientPlugins: [createDatePlugin(clock)], logger: silent };
  const chain = fromNodeProviderChain({
    ...sts,
    ...(profile !== null && { profile }),
    ...(sessionName !== null && { roleSessionName: sessionName }),
  });
  const provider =
    roleArn === null
      ? chain
      : fromTemporaryCredentials({
          ...sts,
          masterCredentials: chain,
          params: {
            RoleArn: roleArn,
            RoleSessionName: sessionName ?? 'model-gateway',
            ...(externalId !== null && { ExternalId: externalId }),
          },
        });
  const { accessKeyId, secretAccessKey, sessionToken, expiration } = await provider();
  return {
    accessKeyId,
    secretAccessKey,
    ...(sessionToken !== undefined && { sessionToken }),
    ...(expiration && { expiration }),
  };
}

/**
 * Sets the clock from responses of STS. If the clock is wrong, STS responds with an error, so error responses are read
 * too.
 */
function createDatePlugin(clock: ServerClock): ClientPlugin {
  return {
    applyToStack(stack) {
      const readDate: Parameters<typeof stack.add>[0] = (next) => async (request) => {
        const result = await next(request);
        clock.setByDate(asString(asObject(asObject(result.response).headers)['date']));
        return result;
      };
      stack.add(readDate, { step: 'deserialize', priority: 'low' });
    },
  };
}

const silent = { debug: ignore, info: ignore, warn: ignore, error: ignore };

function ignore(): void {
  // Ignore all messages. Without a logger, the SDK would print warnings to the console.
}
