/** A credential of a cloud identity, and what a provider needs from its identity. */
import type { HttpRequest, HttpResponse } from '../http-client.ts';

/** A credential that a cloud has issued. */
export interface Credential {
  /** Returns the request with the headers that prove the identity. */
  authorize(request: HttpRequest): HttpRequest | Promise<HttpRequest>;
  /** By the clock of `LoadCredential`. Null if the credential doesn't expire. */
  readonly expiresAtMs: number | null;
  /** Values that no message may contain. */
  readonly secrets: readonly string[];
}

/** Gets a new credential from the cloud. */
export type LoadCredential = () => Promise<Credential>;

/** The identity of a provider. */
export interface VendorIdentity {
  /**
   * Adds the credential to a request. Never waits for a new credential. Throws VendorError if there is no valid one.
   */
  authorize(request: HttpRequest): HttpRequest | Promise<HttpRequest>;
  /** Call this with responses that reject the credential (401 and 403). We then get a new one soon. */
  rejected(response: Pick<HttpResponse, 'headers'>): void;
  /** The values of the current and the previous credential that no message may contain. */
  secrets(): readonly string[];
}

export function createBearerCredential(
  token: string,
  expiresAtMs: number | null,
  headers: Readonly<Record<string, string>> = {},
): Credential {
  const all = { ...headers, authorization: `Bearer ${token}` };
  return {
    authorize: (request) => ({ ...request, headers: { ...request.headers, ...all } }),
    expiresAtMs,
    secrets: [token],
  };
}
