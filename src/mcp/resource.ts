/**
 * The address of the MCP resource, by which clients find out where to sign in (RFC 9728), and the hosts and origins that may use it.
 *
 * Without a public URL the gateway serves loopback names only: any other Host may be a DNS name that an attacker points at this machine.
 */
import {
  getOAuthProtectedResourceMetadataUrl,
  localhostAllowedHostnames,
  validateHostHeader,
  validateOriginHeader,
} from '@modelcontextprotocol/server';
import { scopes } from '../people/scopes.ts';

export interface ResourceSettings {
  /** `https://gateway.example.com`, without a trailing slash; null: loopback only. */
  readonly publicUrl: string | null;
  /** The OIDC issuer; null: personal tokens only. */
  readonly issuer: string | null;
}

export interface RequestHeaders {
  readonly host?: string | undefined;
  readonly origin?: string | undefined;
}

export interface Resource {
  /** The audience of access tokens. */
  readonly url: string;
  readonly issuer: string | null;
  /**
   * Where 401 and 403 send a client that wants to sign in. Absent without an issuer, because clients would then try to register with the
   * gateway itself and report that failure instead of ours.
   */
  readonly metadataUrl?: string;
  /** The protected resource metadata. */
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** Why a request must not be served; null when host and origin are allowed. */
export function findForeignHost({ publicUrl }: ResourceSettings, { host, origin }: RequestHeaders): string | null {
  const allowed = [...localhostAllowedHostnames(), ...(publicUrl === null ? [] : [new URL(publicUrl).hostname])];
  const checkedHost = validateHostHeader(host, allowed);
  if (!checkedHost.ok) return `${checkedHost.message}. Set GATEWAY_PUBLIC_URL to serve other hosts than localhost.`;
  const checkedOrigin = validateOriginHeader(origin, allowed);
  return checkedOrigin.ok ? null : checkedOrigin.message;
}

/** The resource as the client addresses it; `headers` were checked by `findForeignHost`. */
export function describeResource({ publicUrl, issuer }: ResourceSettings, { host = 'localhost' }: RequestHeaders): Resource {
  const url = `${publicUrl ?? `http://${host}`}/mcp`;
  return {
    url,
    issuer,
    ...(issuer !== null && { metadataUrl: getOAuthProtectedResourceMetadataUrl(new URL(url)) }),
    metadata: {
      resource: url,
      resource_name: 'Model gateway',
      ...(issuer !== null && { authorization_servers: [issuer] }),
      scopes_supported: scopes,
      bearer_methods_supported: ['header'],
    },
  };
}
