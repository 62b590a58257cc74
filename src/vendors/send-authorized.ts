/** Sends requests with the credential of the provider's cloud identity, if it has one. */
import type { HttpRequest, HttpResponse, VendorHttpClient } from './http-client.ts';
import type { VendorIdentity } from './identity/credential.ts';
import type { ProviderConnection } from './vendor.ts';

/** Sends a request to the provider's origin, because no other host may get the credential. Throws VendorError. */
export function sendAuthorized(
  httpClient: VendorHttpClient,
  { identity }: Pick<ProviderConnection, 'identity'>,
  request: HttpRequest,
): Promise<HttpResponse> {
  return identity ? sendWithIdentity(httpClient, identity, request) : httpClient.send(request);
}

async function sendWithIdentity(httpClient: VendorHttpClient, identity: VendorIdentity, request: HttpRequest): Promise<HttpResponse> {
  const response = await httpClient.send(await identity.authorize(request));
  if (response.status === 401 || response.status === 403) identity.rejected(response);
  return response;
}
