/** A server that records requests and responds like a vendor of either dialect, at whatever path it is called. */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface RecordedRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Record<string, unknown>;
}

export interface CloudVendor {
  readonly url: string;
  readonly requests: RecordedRequest[];
  close(): Promise<void>;
}

const usage = { input_tokens: 3, output_tokens: 2 };
const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', stop_sequence: null };
const completion = { id: 'c', created: 1, model: 'm' };

/** The response to a path and body, and whether it is an event stream. */
function respond(path: string, { stream }: Record<string, unknown>): { readonly type: string; readonly text: string } {
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
  return events(
    [
      { type: 'message_start', message: { ...message, content: [], stop_reason: null, usage } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Oslo' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 2 } },
      { type: 'message_stop' },
    ],
    '',
  );
}

export async function startCloudVendor(): Promise<CloudVendor> {
  const requests: RecordedRequest[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = JSON.parse(Buffer.concat(chunks).toString('utf8') || '{}');
    const { method = '', url: path = '', headers } = request;
    requests.push({ method, path, headers, body });
    const { type, text } = respond(path, body);
    response.writeHead(200, { 'content-type': type }).end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}
