/** Checks AWS signatures (version 4) based on what arrived on the wire, like AWS's services do. */
import { createHash, createHmac } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

export interface SignedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface Signature {
  readonly accessKeyId: string;
  readonly region: string;
  readonly service: string;
  readonly signedHeaders: readonly string[];
  readonly isValid: boolean;
  readonly signedAtMs: number;
}

const sha256 = (data: string | Buffer): string => createHash('sha256').update(data).digest('hex');
const hmac = (key: string | Buffer, data: string): Buffer => createHmac('sha256', key).update(data).digest();

/** Encodes all characters except the unreserved ones of RFC 3986. */
function encode(text: string): string {
  return encodeURIComponent(text).replaceAll(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** Returns null if the request isn't signed. */
export function readSignature(
  { method, path, headers, body }: SignedRequest,
  findSecret: (accessKeyId: string) => string,
): Signature | null {
  const match =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8}\/([^/]+)\/([^/]+)\/aws4_request), SignedHeaders=([^,]+), Signature=(\w+)$/.exec(
      headers.authorization ?? '',
    );
  if (!match) return null;
  const [, accessKeyId = '', scope = '', region = '', service = '', names = '', signature = ''] = match;
  const [pathname = '', search = ''] = path.split('?');
  const query = [...new URLSearchParams(search)].map(([name, value]) => `${encode(name)}=${encode(value)}`).sort();
  const signedHeaders = names.split(';');
  const date = String(headers['x-amz-date']);
  const canonical = [
    method,
    pathname.split('/').map(encode).join('/'),
    query.join('&'),
    ...signedHeaders.map((name) => `${name}:${String(headers[name]).trim().replaceAll(/\s+/g, ' ')}`),
    '',
    names,
    sha256(body),
  ].join('\n');
  const toSign = ['AWS4-HMAC-SHA256', date, scope, sha256(canonical)].join('\n');
  const [day = ''] = scope.split('/');
  const key = [region, service, 'aws4_request'].reduce<Buffer>(hmac, hmac(`AWS4${findSecret(accessKeyId)}`, day));
  return {
    ...{ accessKeyId, region, service, signedHeaders },
    isValid: hmac(key, toSign).toString('hex') === signature,
    signedAtMs: Date.parse(date.replace(/(....)(..)(..)T(..)(..)(..)Z/, '$1-$2-$3T$4:$5:$6Z')),
  };
}
