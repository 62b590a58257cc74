/** A server that acts as three model vendors. It bills every request in a ledger, like a real vendor would. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { startLocalServer } from '../support/local-server.ts';
import {
  type Body,
  type Generation,
  generate,
  outputTokens,
  RejectedRequest,
  type VendorFailure,
  type VendorScript,
} from './generation.ts';
import { type Bill, type BilledRoute, createLedger, type Ledger } from './ledger.ts';
import { findModel } from './models.ts';
import { chatWriter } from './write-chat.ts';
import { messagesWriter } from './write-messages.ts';
import { responsesWriter } from './write-responses.ts';
import { type DialectWriter, outputOf, type Piece } from './writing.ts';

export interface BillingVendor {
  readonly url: string;
  readonly ledger: Ledger;
  /** Registers the script that the vendors follow for all requests of a call. */
  expect(call: string, script: VendorScript): void;
  /** Returns the number of requests in progress. */
  running(): number;
  close(): Promise<void>;
}

/**
 * The prompt contains this mark, so that the vendor can identify the call even after the gateway has translated the
 * request.
 */
export function markOf(call: string): string {
  return `[call ${call}]`;
}

const mark = /\[call ([\w-]+)\]/;
const routes: Readonly<Record<string, BilledRoute>> = {
  'chat/completions': 'chat',
  messages: 'messages',
  responses: 'responses',
  embeddings: 'embeddings',
  rerank: 'rerank',
  'images/generations': 'images',
};
const writers: Partial<Record<BilledRoute, DialectWriter>> = { chat: chatWriter, messages: messagesWriter, responses: responsesWriter };

export async function createBillingVendor(): Promise<BillingVendor> {
  const ledger = createLedger();
  const scripts = new Map<string, VendorScript>();
  let running = 0;
  let requests = 0;

  const server = await startLocalServer((request, response) => {
    running += 1;
    // If the gateway cancels a request, it closes the connection in the middle of the response.
    response.on('error', () => undefined);
    serve(request, response)
      .catch((error: unknown) => {
        if (response.headersSent) response.destroy();
        else respond(response, 500, { error: { message: String(error), type: 'scripted_vendor' } });
      })
      .finally(() => {
        running -= 1;
      });
  });

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, provider = '', , ...path] = (request.url ?? '').split('/');
    const text = (await buffer(request)).toString();
    const body = JSON.parse(text) as Body;
    const call = mark.exec(text)?.[1] ?? '';
    const script = scripts.get(call);
    const route = routes[path.join('/')];
    if (!script || !route) return respond(response, 404, { error: { message: `no script for ${request.url} ${call}` } });
    const failure = script.failures[provider];
    if (failure && failure !== 'broken response') return failEarly(response, failure);
    const model = findModel(`${provider}/${String(body['model'])}`);
    requests += 1;
    const id = `gen-${requests}`;
    try {
      const generation = generate(body, model, script);
      const bill = ledger.open({ call, route, model });
      bill.failure = failure ?? null;
      bill.tier = generation.tier;
      bill.tokens = generation.input;
      bill.compaction = generation.compaction;
      bill.images = generation.images;
      const writer = writers[route];
      if (!writer) await respondOther(response, body, bill, generation);
      else if (body['stream'] === true) await stream(response, bill, generation, writer.stream(generation, id));
      else await json(response, bill, generation, writer.json(generation, id));
    } catch (error) {
      if (!(error instanceof RejectedRequest)) throw error;
      respond(response, 400, { error: { message: error.message, type: 'invalid_request_error' } });
    }
  }

  return {
    url: server.url,
    ledger,
    expect: (call, script) => void scripts.set(call, script),
    running: () => running,
    close: () => server.close(),
  };
}

/** Vendors generate a non-streaming response in full even if the caller disconnects, so we bill all of it up front. */
async function json(response: ServerResponse, bill: Bill, generation: Generation, body: object): Promise<void> {
  const { script, isBackground } = generation;
  bill.isBackground = isBackground;
  billAll(bill, generation);
  if (!isBackground) await sleep(script.firstByteMs);
  if (response.destroyed) return;
  const text = JSON.stringify(body);
  if (bill.failure !== null) {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
    response.write(text.slice(0, text.length / 2));
    await sleep(5);
    return void response.destroy();
  }
  bill.usageSent = !isBackground && script.usage !== 'missing';
  bill.closedAt = performance.now();
  respond(response, 200, body, text);
}

/** Bills each chunk as we write it. A caller that disconnects pays for what was generated before the vendor noticed. */
async function stream(response: ServerResponse, bill: Bill, generation: Generation, pieces: Iterable<Piece>): Promise<void> {
  const { script, choices } = generation;
  const hidden = choices.reduce((sum, choice) => sum + choice.hidden, 0);
  bill.webSearches = generation.webSearches;
  bill.tokens = { ...bill.tokens, output: hidden };
  bill.isBackground = generation.isBackground;
  await sleep(script.firstByteMs);
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const total = outputOf(generation);
  let contentEndsAt = bill.openedAt;
  for (const { text, tokens, hasUsage } of pieces) {
    if (response.destroyed) break;
    if (bill.failure !== null && bill.sentTokens * 2 >= total - hidden) {
      // The part before leaves the process first. A connection that closes without a response isn't billed.
      response.flushHeaders();
      await sleep(5);
      response.destroy();
      break;
    }
    bill.tokens = { ...bill.tokens, output: bill.tokens.output + tokens };
    bill.sentTokens += tokens;
    if (hasUsage) bill.usageSent = true;
    if (tokens > 0) contentEndsAt = performance.now();
    if (!response.write(text)) await drained(response);
    if (script.pauseMs > 0) await sleep(script.pauseMs);
  }
  // OpenAI finishes a background response even if nobody reads it.
  if (generation.isBackground) billAll(bill, generation);
  if (response.destroyed) return;
  bill.isBackground = false;
  bill.closedAt = contentEndsAt;
  response.end();
}

function billAll(bill: Bill, generation: Generation): void {
  bill.webSearches = generation.webSearches;
  bill.tokens = { ...bill.tokens, output: generation.choices.reduce((sum, choice) => sum + outputTokens(choice), 0) };
}

/** Responds to embeddings, rerank and image requests, whose output can't be cut off. */
async function respondOther(response: ServerResponse, body: Body, bill: Bill, { script, model, input }: Generation): Promise<void> {
  await sleep(script.firstByteMs);
  const whole = input.input + input.cachedInput + input.cacheWrite + input.cacheWrite1h;
  if (!response.destroyed) bill.closedAt = performance.now();
  bill.usageSent = script.usage !== 'missing';
  const { usageSent } = bill;
  if (bill.route === 'embeddings') {
    bill.tokens = { ...input, input: whole, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0 };
    const count = Array.isArray(body['input']) ? body['input'].length : 1;
    return respond(response, 200, {
      object: 'list',
      model: model.id,
      data: Array.from({ length: count }, (_, index) => ({ object: 'embedding', index, embedding: [0.1, 0.2, 0.3] })),
      ...(usageSent && { usage: { prompt_tokens: whole, total_tokens: whole } }),
    });
  }
  if (bill.route === 'rerank') {
    const documents = Array.isArray(body['documents']) ? body['documents'].length : 0;
    const results = [{ index: 0, relevance_score: 0.5 }];
    if (model.prices.perSearch === 0) {
      // Voyage and Jina bill the query once per document. SiliconFlow reports zero searches besides the tokens.
      const repeated = Math.ceil(JSON.stringify(body['query']).length / 4) * (documents - 1);
      bill.tokens = { ...input, input: whole + repeated, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0 };
      const billed = { input_tokens: bill.tokens.input, search_units: 0 };
      return respond(response, 200, { results, ...(usageSent && { meta: { billed_units: billed } }) });
    }
    bill.tokens = { ...input, input: 0, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0 };
    bill.searches = Math.max(1, Math.ceil(documents / 100));
    return respond(response, 200, { results, ...(usageSent && { meta: { billed_units: { search_units: bill.searches } } }) });
  }
  const requested = typeof body['n'] === 'number' ? body['n'] : 1;
  const images = Math.max(0, requested - script.filteredImages);
  bill.tokens = { ...input, input: whole, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output: images * model.maxOutputTokens };
  respond(response, 200, {
    created: 1,
    data: Array.from({ length: requested }, (_, index) =>
      index < images ? { b64_json: 'iVBORw0KGgo=' } : { error: { code: 'content_filter' } },
    ),
    ...(usageSent && {
      usage: { input_tokens: whole, output_tokens: images * model.maxOutputTokens, total_tokens: whole + images * model.maxOutputTokens },
    }),
  });
}

function failEarly(response: ServerResponse, failure: Exclude<VendorFailure, 'broken response'>): void {
  if (failure === 'closed connection') return void response.destroy();
  const status = failure === 'status 500' ? 500 : 429;
  respond(response, status, { error: { message: 'scripted failure', type: 'server_error' } });
}

function respond(response: ServerResponse, status: number, body: object, text = JSON.stringify(body)): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(text);
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    response.once('drain', resolve);
    response.once('close', resolve);
  });
}
