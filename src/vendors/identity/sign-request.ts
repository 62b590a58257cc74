/** Signs requests with AWS Signature Version 4, and derives bearer tokens for Bedrock from AWS credentials. */
import { createHash, createHmac, type Hash, type Hmac } from 'node:crypto';
import type { SignatureV4 } from '@smithy/signature-v4';
import type { HttpRequest } from '../http-client.ts';

export interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

type SignerInit = ConstructorParameters<typeof SignatureV4>[0];
type SourceData = string | ArrayBuffer | ArrayBufferView;

class Sha256 {
  private readonly hash: Hash | Hmac;

  constructor(secret?: SourceData) {
    this.hash = secret === undefined ? createHash('sha256') : createHmac('sha256', toBytes(secret));
  }

  update(data: SourceData): void {
    this.hash.update(toBytes(data));
  }

  digest(): Promise<Uint8Array> {
    return Promise.resolve(this.hash.digest());
  }

  reset(): void {
    throw new Error('a hash can only be used once');
  }
}

function toBytes(data: SourceData): Buffer {
  if (typeof data === 'string') return Buffer.from(data);
  return ArrayBuffer.isView(data) ? Buffer.from(data.buffer, data.byteOffset, data.byteLength) : Buffer.from(data);
}

export async function createSigner(init: Pick<SignerInit, 'credentials' | 'region' | 'service'>): Promise<SignatureV4> {
  const { SignatureV4: Signer } = await import('@smithy/signature-v4');
  return new Signer({ ...init, sha256: Sha256 });
}

/** Only sign headers that a proxy on the way wouldn't change. */
const signedHeaders = /^(?:content-type|anthropic-.*|x-amz.*)$/;

export async function signRequest(signer: SignatureV4, request: HttpRequest, signingDate: Date): Promise<HttpRequest> {
  const { origin, pathname, search } = request.url;
  const { protocol, hostname, host } = new URL(origin);
  // AWS's own SDK encodes all reserved characters of the path, such as the colon in a model's name, so do the same.
  const path = pathname.split('/').map(encodeSegment).join('/');
  const body = request.body === null || Buffer.isBuffer(request.body) ? request.body : Buffer.concat(await Array.fromAsync(request.body));
  const { headers } = await signer.sign(
    {
      method: request.method,
      protocol,
      hostname,
      path,
      query: toQuery(search),
      headers: { ...Object.fromEntries(Object.entries(request.headers).filter(([name]) => signedHeaders.test(name))), host },
      body: body ?? undefined,
    },
    { signingDate },
  );
  const { host: _sentByClient, ...added } = headers;
  return { ...request, url: { origin, pathname: path, search }, headers: { ...request.headers, ...added }, body };
}

function toQuery(search: string): Record<string, string | string[]> {
  const query: Record<string, string | string[]> = {};
  const params = new URLSearchParams(search);
  for (const name of params.keys()) {
    const values = params.getAll(name);
    query[name] = values.length === 1 ? (values[0] ?? '') : values;
  }
  return query;
}

function encodeSegment(segment: string): string {
  return encodeReserved(decodeURIComponent(segment));
}

/** Encodes all characters except the unreserved ones of RFC 3986. */
function encodeReserved(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

/**
 * Returns a bearer token for Bedrock, which is really a presigned URL. AWS has a token generator for this, but we can't
 * pass it the time, which we need to correct a wrong clock.
 */
export async function mintBedrockToken(signer: SignatureV4, expiresInSeconds: number, signingDate: Date): Promise<string> {
  const host = 'bedrock.amazonaws.com';
  const request = {
    method: 'POST',
    protocol: 'https:',
    hostname: host,
    headers: { host },
    path: '/',
    query: { Action: 'CallWithBearerToken' },
  };
  const { query = {} } = await signer.presign(request, { expiresIn: expiresInSeconds, signingDate });
  const pairs = Object.keys(query)
    .sort()
    .map((name) => `${encodeReserved(name)}=${encodeReserved(String(query[name]))}`);
  return `bedrock-api-key-${Buffer.from(`${host}/?${pairs.join('&')}&Version=1`).toString('base64')}`;
}
