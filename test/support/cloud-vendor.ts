/** A server that records requests and responds on any path like a vendor, in both dialects. */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { chunkFrame } from './aws-event-stream.ts';

export interface RecordedRequest {
  readonly method: string;
  /** Includes the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Record<string, unknown>;
  readonly bytes: Buffer;
}

export interface CloudVendor {
  readonly url: string;
  readonly requests: RecordedRequest[];
  /** Tests replace this to let a request fail. It returns the status of the response, which is 200 by default. */
  check: (request: RecordedRequest) => number;
  close(): Promise<void>;
}

const usage = { input_tokens: 3, output_tokens: 2 };
const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', stop_sequence: null };
const completion = { id: 'c', created: 1, model: 'm' };

/** Returns the response for a path and body. If `stream` is set, that's an event stream. */
function respond(path: string, { stream }: Record<string, unknown>): { readonly type: string; readonly text: string | Buffer } {
  const json = (value: object) => ({ type: 'application/json', text: JSON.stringify(value) });
  const events = (list: readonly object[], last: string) => ({
    type: 'text/event-stream',
    text: `${list
      .map((event) => `${'type' in event ? `event: ${String(event.type)}\n` : ''}data: ${JSON.stringify(event)}\n\n`)
      .join('')}${last}`,
  });
  if (path.includes('count')) return json({ input_tokens: 7 });
  if (path.includes('embeddings'))
    return json({
      object: 'list',
      data: [{ object: 'embedding', index: 0, embedding: [0.5] }],
      usage: { prompt_tokens: 1, total_tokens: 1 },
    });
  if (path.includes('/chat/completions')) {
    const tokens = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
    if (stream !== true)
      return json({
        ...completion,
        object: 'chat.completion',
        choices: [{ index: 0, message: { role: 'assistant', content: 'Oslo' }, finish_reason: 'stop' }],
        usage: tokens,
      });
    const chunk = { ...completion, object: 'chat.completion.chunk' };
    return events(
      [
        { ...chunk, choices: [{ index: 0, delta: { role: 'assistant', content: 'Oslo' }, finish_reason: null }] },
        { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
        { ...chunk, choices: [], usage: tokens },
      ],
      'data: [DONE]\n\n',
    );
  }
  if (stream !== true && !/stream/i.test(path))
    return json({ ...message, content: [{ type: 'text', text: 'Oslo' }], stop_reason: 'end_turn', usage });
  const list = [
    { type: 'message_start', message: { ...message, content: [], stop_reason: null, usage } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Oslo' } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 2 } },
    { type: 'message_stop' },
  ];
  // Streams of Bedrock are binary.
  if (path.endsWith('/invoke-with-response-stream'))
    return { type: 'application/vnd.amazon.eventstream', text: Buffer.concat(list.map(chunkFrame)) };
  return events(list, '');
}

export async function startCloudVendor(): Promise<CloudVendor> {
  const requests: RecordedRequest[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    const body = JSON.parse(bytes.toString('utf8') || '{}');
    const { method = '', url: path = '', headers } = request;
    const recorded = { method, path, headers, body, bytes };
    requests.push(recorded);
    const status = vendor.check(recorded);
    const failed = {
      type: 'application/json',
      text: JSON.stringify({ error: { type: 'authentication_error', message: `refused ${headers.authorization}` } }),
    };
    const { type, text } = status === 200 ? respond(path, body) : failed;
    response.writeHead(status, { 'content-type': type }).end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const vendor: CloudVendor = {
    url: `http://127.0.0.1:${port}`,
    requests,
    check: () => 200,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  return vendor;
}
