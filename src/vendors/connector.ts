import type { Socket } from 'node:net';
import { createSecureContext, getCACertificates } from 'node:tls';
import { buildConnector, Client, type Dispatcher } from 'undici';
import type { Egress } from '../core/egress.ts';
import { errorCode } from '../core/error-messages.ts';
import { VendorError } from '../core/errors.ts';
import { asString } from '../core/json/narrow.ts';
import { describeConnectionError } from './connection-error.ts';

/** Returns the function that undici calls to open a connection. The timeout is for each connection. */
export function createConnector(timeoutMs: number, egress: Egress | null): buildConnector.connector {
  const { proxy = null, ca = null } = egress ?? {};
  // Create the context only once. Otherwise, Node would parse all certificates again for every connection.
  const secureContext = ca === null ? undefined : createSecureContext({ ca: [...getCACertificates('default'), ca] });
  const tls = { timeout: timeoutMs, ...(secureContext && { secureContext }) };
  const connect = buildConnector(tls);
  if (proxy === null) return connect;
  return (options, callback) => {
    openTunnel(new URL(proxy), options, tls).then(
      (socket) => (options.protocol === 'https:' ? connect({ ...options, httpSocket: socket }, callback) : callback(null, socket)),
      (error: unknown) => callback(error instanceof Error ? error : new Error('cannot connect to the proxy'), null),
    );
  };
}

/** Asks a proxy for a tunnel to a host (RFC 9110, section 9.3.6). Throws VendorError if the proxy refuses. */
async function openTunnel(
  proxy: URL,
  { hostname, port, protocol }: buildConnector.Options,
  tls: buildConnector.BuildOptions & { readonly timeout: number },
): Promise<Socket> {
  // Undici passes IPv6 addresses without brackets, so add them.
  const host = `${hostname.includes(':') ? `[${hostname}]` : hostname}:${port || (protocol === 'https:' ? 443 : 80)}`;
  const credentials = [proxy.username, proxy.password].map(decodeURIComponent).join(':');
  const authorization = credentials === ':' ? {} : { 'proxy-authorization': `Basic ${Buffer.from(credentials).toString('base64')}` };
  // The client only has one connection and gives us its socket, so we don't have to close anything afterwards. HTTP/2
  // is off, because undici wouldn't return a socket.
  const client = new Client(proxy.origin, { connect: tls, allowH2: false });
  const signal = AbortSignal.timeout(tls.timeout);
  let response: Dispatcher.ConnectData;
  try {
    response = await client.connect({ path: host, headers: { host, ...authorization }, signal });
  } catch (cause) {
    void client.destroy();
    const problem = signal.aborted ? 'it timed out' : describeConnectionError(asString(errorCode(cause)));
    throw new VendorError('connect', 'cannot connect through the proxy', { cause, detail: `cannot connect through the proxy: ${problem}` });
  }
  const { statusCode, socket } = response;
  if (statusCode >= 200 && statusCode <= 299) return socket as Socket;
  socket.on('error', () => undefined).destroy();
  const detail =
    statusCode === 407 ? 'the proxy rejected the user name or password (407)' : `the proxy refused the connection (${statusCode})`;
  throw new VendorError('connect', detail, { detail });
}
