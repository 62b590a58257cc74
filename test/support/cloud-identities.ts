/**
 * Simulates the identity services of the clouds, i.e. STS and the metadata services of AWS, Google's token endpoints
 * and metadata server, and Microsoft's Entra ID and IMDS. All of them are at one address. It's also a proxy that
 * redirects all HTTPS connections to these services.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { readSignature } from './aws-signature.ts';
import { createCertificate } from './certificate.ts';

export interface IdentityRequest {
  readonly method: string;
  readonly host: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly form: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface CloudIdentities {
  readonly url: string;
  readonly requests: IdentityRequest[];
  /** How long the credentials are valid. */
  lifetimeMs: number;
  /** How much the clocks of the clouds are ahead of ours. */
  aheadMs: number;
  /** If this is set, all requests for credentials get this response. */
  failure: { readonly status: number; readonly body: string } | null;
  /** All access tokens and secret access keys that have been issued. */
  readonly issued: readonly string[];
  /** Returns the secret access key for an id. This also works for the static key. */
  secretOf(accessKeyId: string): string;
  /** Returns true if we've issued this token or access key and it hasn't expired yet. */
  isValid(tokenOrAccessKeyId: string): boolean;
  close(): Promise<void>;
}

/** A long-lived key that tests put into the environment or into a profile. */
export const staticKey = { accessKeyId: 'AKIASTATICSTATICSTAT', secretAccessKey: 'static-secret-access-key' };
const toleratedSkewMs = 300_000;

export async function startCloudIdentities(): Promise<CloudIdentities> {
  const requests: IdentityRequest[] = [];
  const expiries = new Map<string, number>([[staticKey.accessKeyId, Number.POSITIVE_INFINITY]]);
  const secrets = new Map<string, string>([[staticKey.accessKeyId, staticKey.secretAccessKey]]);
  const issued: string[] = [];
  const cloudNow = (): number => Date.now() + services.aheadMs;

  const issueToken = (): { access_token: string; expires_in: number; token_type: string } => {
    const access_token = `token-${issued.length + 1}-${'x'.repeat(40)}`;
    issued.push(access_token);
    expiries.set(access_token, cloudNow() + services.lifetimeMs);
    return { access_token, expires_in: Math.round(services.lifetimeMs / 1_000), token_type: 'Bearer' };
  };
  const issueKey = () => {
    const number = issued.length + 1;
    const AccessKeyId = `ASIA${String(number).padStart(16, '0')}`;
    const SecretAccessKey = `secret-${number}-${'s'.repeat(30)}`;
    issued.push(SecretAccessKey);
    secrets.set(AccessKeyId, SecretAccessKey);
    expiries.set(AccessKeyId, cloudNow() + services.lifetimeMs);
    return {
      AccessKeyId,
      SecretAccessKey,
      SessionToken: `session-${number}`,
      Expiration: new Date(cloudNow() + services.lifetimeMs).toISOString(),
    };
  };

  const sts = (request: IdentityRequest, reply: Reply): unknown => {
    const { Action = '' } = request.form;
    if (Action === 'AssumeRole') {
      const signature = readSignature({ ...request, body: Buffer.from(request.body) }, services.secretOf);
      const isLate = Math.abs((signature?.signedAtMs ?? 0) - cloudNow()) > toleratedSkewMs;
      if (!signature?.isValid || isLate)
        return reply(403, xmlError('SignatureDoesNotMatch', isLate ? 'Signature expired' : 'wrong signature'), 'text/xml');
    }
    const { AccessKeyId, SecretAccessKey, SessionToken, Expiration } = issueKey();
    const credentials = `<Credentials><AccessKeyId>${AccessKeyId}</AccessKeyId><SecretAccessKey>${SecretAccessKey}</SecretAccessKey><SessionToken>${SessionToken}</SessionToken><Expiration>${Expiration}</Expiration></Credentials>`;
    const user =
      '<AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/r/s</Arn><AssumedRoleId>A:s</AssumedRoleId></AssumedRoleUser>';
    return reply(
      200,
      `<${Action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><${Action}Result>${credentials}${user}</${Action}Result></${Action}Response>`,
      'text/xml',
    );
  };

  const handle = (request: IdentityRequest, reply: Reply): unknown => {
    const { method, path, headers, form } = request;
    const json = (value: object): void => reply(200, JSON.stringify(value), 'application/json');
    const [pathname = ''] = path.split('?');
    // The libraries look for Microsoft's endpoints first. This always works, even if there's a failure.
    if (pathname.endsWith('/discovery/instance'))
      return json({ tenant_discovery_endpoint: `https://${request.host}/t/v2.0/.well-known/openid-configuration`, metadata: [] });
    if (pathname.endsWith('/openid-configuration')) {
      const tenant = `https://${request.host}/${pathname.split('/')[1]}`;
      const endpoint = (name: string): string => `${tenant}/oauth2/v2.0/${name}`;
      return json({
        issuer: `${tenant}/v2.0`,
        token_endpoint: endpoint('token'),
        authorization_endpoint: endpoint('authorize'),
        jwks_uri: `${tenant}/keys`,
      });
    }
    if (pathname === '/latest/api/token') return reply(200, 'imds-session', 'text/plain');
    if (pathname === '/latest/meta-data/iam/security-credentials/') return reply(200, 'my-role', 'text/plain');
    if (pathname === '/computeMetadata/v1/project/project-id') return reply(200, 'my-project', 'text/plain');
    if (services.failure)
      return reply(services.failure.status, services.failure.body, services.failure.body.startsWith('<') ? 'text/xml' : 'application/json');
    if (method === 'POST' && form.Action !== undefined) return sts(request, reply);
    if (pathname === '/latest/meta-data/iam/security-credentials/my-role') {
      const { SessionToken, ...key } = issueKey();
      return json({ Code: 'Success', Type: 'AWS-HMAC', ...key, Token: SessionToken, LastUpdated: new Date().toISOString() });
    }
    if (pathname === '/ecs-credentials') {
      const { SessionToken, ...key } = issueKey();
      return headers.authorization === 'ecs-token' ? json({ ...key, Token: SessionToken }) : reply(403, '{}', 'application/json');
    }
    if (pathname.startsWith('/computeMetadata/v1/instance'))
      return headers['metadata-flavor'] === 'Google'
        ? json(pathname.endsWith('/token') ? issueToken() : {})
        : reply(403, '{}', 'application/json');
    if (pathname.endsWith(':generateAccessToken')) {
      const { access_token } = issueToken();
      return json({ accessToken: access_token, expireTime: new Date(cloudNow() + services.lifetimeMs).toISOString() });
    }
    if (pathname.startsWith('/metadata/identity/oauth2/token')) {
      const { expires_in, ...token } = issueToken();
      return headers.metadata === 'true'
        ? json({ ...token, expires_in: String(expires_in), expires_on: String(Math.floor(Date.now() / 1_000) + expires_in), resource: 'r' })
        : reply(400, '{"error":"bad_request"}', 'application/json');
    }
    // Google's endpoints, and those of all tenants in Entra.
    if (pathname.endsWith('/token')) return json({ ...issueToken(), issued_token_type: 'urn:ietf:params:oauth:token-type:access_token' });
    return reply(404, '{}', 'application/json');
  };

  const listener = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString('utf8');
    const { method = '', url: path = '', headers } = incoming;
    const isForm = (headers['content-type'] ?? '').startsWith('application/x-www-form-urlencoded');
    const request = {
      method,
      host: headers.host ?? '',
      path,
      headers,
      body,
      form: isForm ? Object.fromEntries(new URLSearchParams(body)) : {},
    };
    requests.push(request);
    handle(request, (status, text, type) => {
      response.writeHead(status, { 'content-type': type, 'metadata-flavor': 'Google', date: new Date(cloudNow()).toUTCString() }).end(text);
    });
  };

  const names = [
    '127.0.0.1',
    'localhost',
    'oauth2.googleapis.com',
    'sts.googleapis.com',
    'iamcredentials.googleapis.com',
    'login.microsoftonline.com',
  ];
  const certificate = createCertificate(names);
  const secure = createTlsServer(certificate, listener);
  const plain = createServer(listener);
  const tunnels = new Set<Duplex>();
  plain.on('connect', (_request, client: Duplex) => {
    const target = connect((secure.address() as AddressInfo).port, '127.0.0.1', () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n');
      client.pipe(target).pipe(client);
    });
    for (const end of [client, target]) tunnels.add(end.on('error', () => undefined));
  });
  for (const server of [plain, secure]) await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const trusted = getCACertificates('default');
  setDefaultCACertificates([...trusted, certificate.cert]);

  const services: CloudIdentities = {
    url: `http://127.0.0.1:${(plain.address() as AddressInfo).port}`,
    requests,
    lifetimeMs: 3_600_000,
    aheadMs: 0,
    failure: null,
    issued,
    secretOf: (accessKeyId) => secrets.get(accessKeyId) ?? 'unknown',
    isValid: (name) => (expiries.get(name) ?? 0) > cloudNow(),
    async close() {
      setDefaultCACertificates(trusted);
      for (const end of tunnels) end.destroy();
      for (const server of [plain, secure]) {
        server.closeAllConnections();
        await new Promise((resolve) => server.close(resolve));
      }
    },
  };
  return services;
}

type Reply = (status: number, text: string, type: string) => void;

export function xmlError(code: string, message: string): string {
  return `<ErrorResponse><Error><Type>Sender</Type><Code>${code}</Code><Message>${message}</Message></Error></ErrorResponse>`;
}

const identityVariables =
  /^(?:AWS_|AZURE_|GOOGLE_|GCE_|GCLOUD_|CLOUDSDK_|HTTPS?_PROXY$|NO_PROXY$|METADATA_|IDENTITY_|MSI_|K_SERVICE$|HOME$)/i;

/**
 * Sets these environment variables and removes all other variables that the clouds' libraries read. Returns a function
 * that undoes this.
 */
export function setVariables(variables: Readonly<Record<string, string>>): () => void {
  const before = Object.entries(process.env).filter(([name]) => identityVariables.test(name));
  const clear = (): void => {
    for (const name of Object.keys(process.env)) if (identityVariables.test(name)) delete process.env[name];
  };
  clear();
  Object.assign(process.env, { HOME: '/nonexistent', AWS_EC2_METADATA_DISABLED: 'true', METADATA_SERVER_DETECTION: 'none' }, variables);
  return () => {
    clear();
    Object.assign(process.env, Object.fromEntries(before));
  };
}

/** Like `setVariables`, but restores the old variables when `work` is done. */
export async function withVariables<Result>(variables: Readonly<Record<string, string>>, work: () => Promise<Result>): Promise<Result> {
  const restore = setVariables(variables);
  try {
    return await work();
  } finally {
    restore();
  }
}
