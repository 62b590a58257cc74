/**
 * A chat vendor that also acts as the memory model. It can delay responses or let them fail, and it records requests.
 */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';

export type MemoryJob = 'chat' | 'memories' | 'consolidation';

export interface ReceivedRequest {
  readonly job: MemoryJob;
  /** The text of the last message. */
  readonly text: string;
}

export interface MemoryVendor {
  /** The configuration of a gateway that only uses this vendor. It retries after about a second. */
  readonly yaml: string;
  /** All requests so far, in order. */
  readonly requests: readonly ReceivedRequest[];
  /** Counts the requests for this job that contained the text. */
  count(job: MemoryJob, text: string): number;
  /** Holds back the response to each request for this job that contains the text. `release` sends them. */
  hold(job: MemoryJob, text: string): { release(): void };
  /** Lets each request for this job fail if it contains the text. `end` stops this. */
  fail(job: MemoryJob, text: string, answer: (text: string) => VendorError): { end(): void };
  close(): void;
}

export interface VendorError {
  readonly status: number;
  readonly message: string;
}

/** By default, each sentence of the user becomes a memory, nothing is merged, and the page lists the new memories. */
export async function createMemoryVendor(): Promise<MemoryVendor> {
  const requests: ReceivedRequest[] = [];
  const scripts = new Set<Script>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', async () => {
      const body = JSON.parse(Buffer.concat(chunks).toString()) as Body;
      const job = body.response_format?.json_schema.name ?? 'chat';
      const text = body.messages.at(-1)?.content ?? '';
      requests.push({ job, text });
      const script = [...scripts].find((each) => each.job === job && text.includes(each.text));
      const error = await script?.answer(text);
      if (error) sendJson(response, error.status, { error: { message: error.message, type: 'server_error', code: null } });
      else sendJson(response, 200, completion(respondTo(job, text)));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return {
    yaml: `
providers: { one: { base_url: 'http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/v1', api_key: key-one, dialect: chat } }
models: { one/m: { input: 1, output: 1 } }
tiers: { standard: [one/m], trivial: [one/m] }
memory: { idle_minutes: 0.02, retry: { first_minutes: 0.02, factor: 2, longest_minutes: 360 } }
`,
    requests,
    count: (job, text) => requests.filter((request) => request.job === job && request.text.includes(text)).length,
    hold(job, text) {
      const { promise: end, resolve } = Promise.withResolvers<null>();
      const script: Script = { job, text, answer: () => end };
      scripts.add(script);
      return {
        release() {
          scripts.delete(script);
          resolve(null);
        },
      };
    },
    fail(job, text, answer) {
      const script: Script = { job, text, answer: async (received) => answer(received) };
      scripts.add(script);
      return { end: () => void scripts.delete(script) };
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

interface Script {
  readonly job: MemoryJob;
  readonly text: string;
  /** If this is null, there's a normal response. */
  readonly answer: (text: string) => Promise<VendorError | null>;
}

interface Body {
  readonly messages: readonly { readonly content: string }[];
  readonly response_format?: { readonly json_schema: { readonly name: 'memories' | 'consolidation' } };
}

function respondTo(job: MemoryJob, text: string): string {
  if (job === 'chat') return 'Noted.';
  const question = JSON.parse(text) as MemoryPrompt;
  if (job === 'consolidation') return JSON.stringify({ merges: [], facts: [], page: question.new.map((item) => item.text).join(' ') });
  const said = question.conversations.flatMap(({ messages }) =>
    messages.filter(({ role }) => role === 'user').map((message) => message.text),
  );
  return JSON.stringify({
    memories: said.map((sentence) => ({ evidence: sentence, text: sentence, names: [], kind: 'fact', importance: 3 })),
  });
}

interface MemoryPrompt {
  readonly conversations: readonly { readonly messages: readonly { readonly role: string; readonly text: string }[] }[];
  readonly new: readonly { readonly text: string }[];
}

function completion(content: string): object {
  const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
  return {
    id: 'x',
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage,
  };
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}
