/** Clouds issue credentials, and a `VendorIdentity` adds the current one to each request to a provider. */
import type { HttpRequest, VendorHttpClient } from '../http-client.ts';
import type { HttpResponse } from '../response-body.ts';

export interface Credential {
  authorize(request: HttpRequest): Promise<HttpRequest>;
  /** When the credential expires, by the clock that `LoadCredential` uses. Null if it never expires. */
  readonly expiresAtMs: number | null;
  /** The secrets in this credential. They're stripped from all messages. */
  readonly secrets: readonly string[];
}

export type LoadCredential = () => Promise<Credential>;

export interface VendorIdentity {
  /** Adds the credential to a request. Throws a VendorError if there's no valid one, rather than waiting for it. */
  authorize(request: HttpRequest): Promise<HttpRequest>;
  /** Call this if the vendor has rejected the credential (401 or 403), so that we soon request a new one. */
  rejected(response: Pick<HttpResponse, 'headers'>): void;
  /** Returns the secrets of the current and the previous credential, because messages can still contain either. */
  secrets(): readonly string[];
}

export function createBearerCredential(
  token: string,
  expiresAtMs: number | null,
  headers: Readonly<Record<string, string>> = {},
): Credential {
  const all = { ...headers, authorization: `Bearer ${token}` };
  return {
    authorize: async (request) => ({ ...request, headers: { ...request.headers, ...all } }),
    expiresAtMs,
    secrets: [token],
  };
}

/**
 * Sends a request to the provider's origin, with the credential of its cloud identity if it has one. No other host may
 * receive that credential, so don't use this for any other host. Throws VendorError.
 */
export function sendAuthorized(
  httpClient: VendorHttpClient,
  { identity }: { readonly identity?: VendorIdentity | null | undefined },
  request: HttpRequest,
): Promise<HttpResponse> {
  return identity ? sendWithIdentity(httpClient, identity, request) : httpClient.send(request);
}

async function sendWithIdentity(httpClient: VendorHttpClient, identity: VendorIdentity, request: HttpRequest): Promise<HttpResponse> {
  const response = await httpClient.send(await identity.authorize(request));
  if (response.status === 401 || response.status === 403) identity.rejected(response);
  return response;
}
