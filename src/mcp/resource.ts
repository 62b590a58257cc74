/**
 * Describes the MCP resource, so that clients can find out where to sign in (RFC 9728). Also decides which hosts and
 * origins we accept. If there's no public URL, we only accept loopback names, because an attacker can make any other
 * name resolve to this machine (DNS rebinding).
 */
import {
  getOAuthProtectedResourceMetadataUrl,
  localhostAllowedHostnames,
  validateHostHeader,
  validateOriginHeader,
} from '@modelcontextprotocol/server';
import { scopes } from '../people/scopes.ts';

export interface ResourceSettings {
  /**
   * The public URL without a trailing slash, e.g. `https://gateway.example.com`. Null to accept only loopback names.
   */
  readonly publicUrl: string | null;
  /** The OIDC issuer. Null to accept only personal tokens. */
  readonly issuer: string | null;
}

export interface RequestHeaders {
  readonly host?: string | undefined;
  readonly origin?: string | undefined;
}

export interface Resource {
  /** The URL of this resource, which is also the audience that access tokens have to be issued for. */
  readonly url: string;
  readonly issuer: string | null;
  /**
   * 401 and 403 responses refer clients to this address to find out where to sign in. It's absent without an issuer,
   * because clients would then try to register with the gateway itself, and report that failure instead of our error.
   */
  readonly metadataUrl?: string;
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** Returns why the request's host or origin is refused, or null if both are accepted. */
export function findForeignHost({ publicUrl }: ResourceSettings, { host, origin }: RequestHeaders): string | null {
  const allowed = [...localhostAllowedHostnames(), ...(publicUrl === null ? [] : [new URL(publicUrl).hostname])];
  const checkedHost = validateHostHeader(host, allowed);
  if (!checkedHost.ok) return `${checkedHost.message}. Set GATEWAY_PUBLIC_URL to serve other hosts than localhost.`;
  const checkedOrigin = validateOriginHeader(origin, allowed);
  return checkedOrigin.ok ? null : checkedOrigin.message;
}

/** Describes the resource under the host name that the client has used. Check the host with `findForeignHost` first. */
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
