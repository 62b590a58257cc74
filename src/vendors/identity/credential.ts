/** The credentials that a cloud issues, and the identity that adds them to a provider's requests. */
import type { HttpRequest, HttpResponse, VendorHttpClient } from '../http-client.ts';

export interface Credential {
  /** Returns a copy of the request with the headers that prove our identity. */
  authorize(request: HttpRequest): Promise<HttpRequest>;
  /** When the credential expires, by the same clock that `LoadCredential` uses. Null if it never expires. */
  readonly expiresAtMs: number | null;
  /** Must not appear in any message. */
  readonly secrets: readonly string[];
}

/** Gets a new credential from the cloud. */
export type LoadCredential = () => Promise<Credential>;

export interface VendorIdentity {
  /**
   * Adds the credential to a request. Never waits for a new credential, but throws a VendorError if there's no valid
   * one.
   */
  authorize(request: HttpRequest): Promise<HttpRequest>;
  /** Call this if the vendor rejected the credential (401 or 403), so that we get a new one soon. */
  rejected(response: Pick<HttpResponse, 'headers'>): void;
  /** Returns the secrets of the current and the previous credential, which we have to keep out of messages. */
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
 * Sends a request to the provider's origin, with the credential of its cloud identity if it has one. Don't use this for
 * any other host, because no other host may get the credential. Throws VendorError.
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
