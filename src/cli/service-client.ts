/**
 * The HTTP client for commands, which uses the admin token. Commands go through the service, because only one process
 * can open the embedded database. It also lets them run on another machine.
 */
import { join } from 'node:path';
import { findAdminTokens } from '../config/admin-token.ts';
import { type Environment, parseEnvironment } from '../config/environment.ts';
import { withSecretFiles } from '../config/secret-files.ts';
import { errorCode } from '../core/error-messages.ts';
import { asObject, asString, isObject, type JsonObject } from '../core/json/narrow.ts';
import { parseJson } from '../core/json/parse.ts';
import { trimEnd } from '../core/trim.ts';
import { findAddress } from './addresses.ts';
import { CommandError } from './command.ts';

const defaultTimeoutMs = 15_000;

/**
 * Finds the service and the admin token. Without a `url`, looks for an address in the data directory and then uses HOST
 * and PORT.
 */
export async function connectService(variables: Environment, url: string | undefined) {
  const mistakes: string[] = [];
  const environment = withSecretFiles(variables, mistakes);
  // Report a mistake in the token's file here, because the service would just say that the token is invalid. Commands
  // don't need any other secret.
  const mistake = mistakes.find((sentence) => sentence.startsWith('GATEWAY_ADMIN_TOKEN'));
  if (mistake !== undefined) throw new CommandError(mistake);
  const { settings } = parseEnvironment(environment);
  const { server } = settings;
  const baseUrl = url ?? (await findAddress(server.dataDir)) ?? toBaseUrl(server.host, server.port);
  if (!/^https?:\/\//.test(baseUrl) || !URL.canParse(baseUrl))
    throw new CommandError(`${baseUrl} is not a URL; use one like http://127.0.0.1:8080`);
  const [token] = await findAdminTokens(environment, settings);
  const tokenFile = join(server.dataDir, 'admin-token');
  if (token === undefined)
    throw new CommandError(
      `no admin token found: set GATEWAY_ADMIN_TOKEN, or run this command on the machine with the service's ${tokenFile}`,
    );
  const origin = trimEnd(baseUrl, '/');
  const target = { origin, token };
  return {
    /** Returns the JSON of the response. If the service reports an error, throws a CommandError with its message. */
    async send(method: string, path: string, body?: unknown, timeoutMs = defaultTimeoutMs): Promise<JsonObject> {
      const content = body === undefined ? {} : { body: JSON.stringify(body), contentType: 'application/json' };
      return readResponse(target, await request(target, path, { method, signal: AbortSignal.timeout(timeoutMs), ...content }));
    },
    /** Like `send`, but the body can have any length, and there's no timeout. */
    async upload(path: string, chunks: AsyncIterable<Uint8Array>): Promise<JsonObject> {
      const content = { body: ReadableStream.from(chunks), contentType: 'application/x-ndjson' };
      return readResponse(target, await request(target, path, { method: 'POST', ...content }));
    },
    /**
     * Yields the response in chunks, so it can have any length. Throws the same errors as `send`, even after it has
     * yielded a part of the response.
     */
    async *download(path: string): AsyncGenerator<Uint8Array, void> {
      const response = await request(target, path, { method: 'GET' });
      if (!response.ok || !response.body)
        throw await readResponse(target, response).then(() => new CommandError('the gateway sent an empty response'));
      try {
        for await (const chunk of response.body) yield chunk;
      } catch (cause) {
        throw new CommandError('the connection was lost before the response was complete; run the command again', null, cause);
      }
    },
  };
}

interface Target {
  readonly origin: string;
  readonly token: string;
}

interface ServiceRequest {
  readonly method: string;
  readonly body?: string | ReadableStream<Uint8Array>;
  readonly contentType?: string;
  readonly signal?: AbortSignal;
}

function request({ origin, token }: Target, path: string, { contentType, ...init }: ServiceRequest): Promise<Response> {
  const headers = { authorization: `Bearer ${token}`, ...(contentType !== undefined && { 'content-type': contentType }) };
  return fetch(origin + path, { ...init, headers, duplex: 'half' }).catch((cause: unknown) => {
    const reason: unknown = asObject(cause).cause;
    if (reason instanceof CommandError) throw reason; // The input of the upload couldn't be read.
    if (init.body instanceof ReadableStream && errorCode(reason) !== 'ECONNREFUSED')
      throw new CommandError(`the connection to ${origin} was lost; run the command again`, null, cause);
    throw new CommandError(`no gateway responds at ${origin}; start one with npm start, or pass its address with --url`, null, cause);
  });
}

async function readResponse(target: Target, response: Response): Promise<JsonObject> {
  const text = await response.text().catch(() => ''); // A response that was cut off isn't valid JSON anyway.
  const responseBody = parseJson(text);
  if (isPlainTextError(response)) throw new CommandError(text.trim(), response.status);
  if (!isObject(responseBody))
    throw new CommandError(`the server at ${target.origin} is not a gateway (status ${response.status})`, response.status);
  if (response.ok) return responseBody;
  const sentence = isObject(responseBody.error) ? asString(responseBody.error.message) : null;
  throw new CommandError(sentence ?? `the gateway responded with status ${response.status}`, response.status);
}

/**
 * Some errors of the gateway are plain text (docs/api/reference.md#plain-text-errors). Checks whether the response may
 * be one of them.
 */
function isPlainTextError({ status, headers }: Response): boolean {
  return [400, 413, 415].includes(status) && (headers.get('content-type') ?? '').startsWith('text/plain');
}

/** Returns the base URL of a service. A service that listens on all interfaces is called on the loopback address. */
function toBaseUrl(host: string, port: number): string {
  const reachable = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
}
