/** Serves `POST /v1/embeddings` in OpenAI's format, to clients that have the token. */
import { timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { z } from 'zod';
import { parseJson } from '../core/json/parse.ts';
import { type LocalModel, localModels } from '../core/local-model.ts';
import { sha256 } from '../core/sha256.ts';
import { describeCause } from './describe-cause.ts';
import type { FailureCause } from './messages.ts';
import type { Embed, Embedding } from './model.ts';
import type { EmbeddingQueue } from './queue.ts';

const maxInputBytes = 8 * 1024 * 1024;
/**
 * The gateway replaces the model in a client's body, e.g. the tier `embed`, with the name of one of our models. Leave
 * room for that name, so that we don't refuse a body just because the name is longer.
 */
const maxBodyBytes = maxInputBytes + Math.max(...localModels.map(({ length }) => length));
/** Limits the total size of request bodies that are waiting for a response. */
const maxHeldBytes = 3 * maxBodyBytes;
/** The size of the vectors that all of our models produce. */
const dimensions = 384;
const advice = 'try again, and if that fails as well, look for the cause in the log of the gateway';

const requestSchema = z.object({
  model: z.enum(localModels, { error: `must be one of ${localModels.join(', ')}` }),
  input: z.union([z.string().transform((text) => [text]), z.array(z.string()).min(1).max(2_048)], {
    error: 'must be a string or a list of 1 to 2048 strings; tokens are not supported',
  }),
  dimensions: z.literal(dimensions, { error: `must be ${dimensions}` }).optional(),
  encoding_format: z.enum(['float', 'base64'], { error: 'must be float or base64' }).default('float'),
});

/** An error with the status and message of its response. The message never quotes the request. */
class HttpError extends Error {
  readonly status: number;
  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

interface ServerOptions {
  readonly models: ReadonlyMap<LocalModel, Embed>;
  readonly queue: EmbeddingQueue;
  readonly token: string;
  /** Called with the reason whenever a request gets a 500. */
  readonly onFailure: (cause: FailureCause) => void;
}

/** Creates a server that doesn't listen on a port. Pass it a connection by emitting a `connection` event. */
export function createEmbeddingServer({ models, queue, token, onFailure }: ServerOptions): Server {
  const expected = sha256(`Bearer ${token}`);
  let heldBytes = 0;
  return createServer((request, response) => {
    const left = new AbortController();
    response.once('close', () => left.abort(new Error('the client has disconnected')));
    const respond = async (): Promise<void> => {
      if (!timingSafeEqual(sha256(request.headers.authorization ?? ''), expected)) throw new HttpError(401, 'invalid token');
      if (request.method !== 'POST' || request.url !== '/v1/embeddings') throw new HttpError(404, 'not found');
      // Assume the maximum if the request has no `content-length`.
      const bytes = Number(request.headers['content-length'] ?? maxBodyBytes);
      if (bytes > maxBodyBytes) throw tooLarge();
      heldBytes += bytes;
      response.once('close', () => {
        heldBytes -= bytes;
      });
      if (heldBytes > maxHeldBytes) throw new HttpError(429, 'too many texts are waiting; try again in a moment');
      const { model, input, encoding_format: format } = parseBody(await readBody(request));
      const embed = models.get(model);
      if (!embed) throw new HttpError(404, `${model} is not loaded, because no configured tier uses it`);
      const queued = queue.add(embed, input, left.signal);
      if (queued === null) throw new HttpError(429, 'too many texts are waiting; try again in a moment');
      const embeddings = await queued.catch((cause: unknown) => {
        throw new HttpError(500, `the model failed to compute the embeddings; ${advice}`, { cause });
      });
      sendJson(response, 200, toResponse(model, embeddings, format));
    };
    respond().catch((error: unknown) => {
      // Drain the request, so that the client can read the response.
      request.resume();
      if (response.destroyed) return;
      const failure = error instanceof HttpError ? error : new HttpError(500, `the local embedder failed; ${advice}`, { cause: error });
      if (failure.status >= 500) onFailure(describeCause(failure.cause));
      sendError(request, response, failure);
    });
  });
}

function tooLarge(): HttpError {
  return new HttpError(413, `the body is larger than ${maxInputBytes} bytes`);
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes > maxBodyBytes) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parseBody(body: string): z.output<typeof requestSchema> {
  const json = parseJson(body);
  if (json === undefined) throw new HttpError(400, 'the body is not valid JSON');
  const parsed = requestSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new HttpError(400, `${issue?.path.join('.') || 'body'}: ${issue?.message}`);
}

function toResponse(model: LocalModel, embeddings: readonly Embedding[], format: 'float' | 'base64'): object {
  const tokens = embeddings.reduce((sum, embedding) => sum + embedding.tokens, 0);
  const data = embeddings.map(({ values }, index) => ({ object: 'embedding', index, embedding: encode(values, format) }));
  return { object: 'list', data, model, usage: { prompt_tokens: tokens, total_tokens: tokens } };
}

/**
 * Encodes a vector as base64, or as numbers with eight decimals, which is about the precision of a 32-bit float of this
 * size.
 */
function encode(values: Float32Array, format: 'float' | 'base64'): readonly number[] | string {
  if (format === 'base64') return Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString('base64');
  return Array.from(values, (value) => Math.round(value * 1e8) / 1e8);
}

function sendError(request: IncomingMessage, response: ServerResponse, { status, message }: HttpError): void {
  const type = status === 429 ? 'rate_limit_error' : status < 500 ? 'invalid_request_error' : 'server_error';
  if (status === 429) response.setHeader('retry-after', '1');
  // If the request hasn't arrived completely, the connection can't be used for another one.
  if (!request.complete) response.setHeader('connection', 'close');
  sendJson(response, status, { error: { message, type, param: null, code: null } });
}

function sendJson(response: ServerResponse, status: number, value: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}
