/** Tests responses of the `openai` SDK with vendors of both dialects that don't have the responses route. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type OpenAI from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { eventually, shareGateway } from '../support/gateway.ts';
import { chatTools, dialects, lastCall, lastRequest, openaiOf, paths, pixel, toolInputs } from './dialects-gateway.ts';

/** The scripted vendor without its route of responses. */
const partial = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', async () => {
    partialPaths.push(request.url ?? '');
    if (request.url === '/v1/responses') {
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"Not Found"}');
      return;
    }
    const headers = { 'content-type': 'application/json', authorization: request.headers.authorization ?? '' };
    const answer = await fetch(`${partialTarget}${request.url}`, { method: 'POST', headers, body: Buffer.concat(chunks) });
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' }).end(await answer.text());
  });
});
const partialPaths: string[] = [];
let partialTarget = '';
let partialPort = 0;

beforeAll(async () => {
  await once(partial.listen(0, '127.0.0.1'), 'listening');
  const address = partial.address();
  partialPort = typeof address === 'object' && address !== null ? address.port : 0;
});
afterAll(async () => {
  partial.closeAllConnections();
  await once(partial.close(), 'close');
});

const lent = shareGateway({
  database: 'any',
  yaml: (vendorUrl, deadUrl) => {
    partialTarget = vendorUrl;
    return `
providers:
  partial: { base_url: http://127.0.0.1:${partialPort}/v1, api_key: key-partial, dialect: chat }
  dead: { base_url: ${deadUrl}/v1, api_key: key-dead, dialect: chat, serves: [responses] }
  chat: { base_url: ${vendorUrl}/v1, api_key: key-chat, dialect: chat, serves: [chat] }
  messages: { base_url: ${vendorUrl}/v1, api_key: key-messages, dialect: messages }
  native: { base_url: ${vendorUrl}/v1, api_key: key-native, dialect: chat, serves: [responses] }
tiers:
  mixed: [dead/echo, messages/echo]
  stateful: [messages/echo, native/echo]
`;
  },
});

type Item = OpenAI.Responses.ResponseInputItem;
const tools = chatTools.map(({ function: fn }) => ({ type: 'function' as const, strict: null, ...fn }));

describe.each(dialects)('responses on a %s vendor', (vendor) => {
  const responses = () => openaiOf(lent()).responses;
  const modelOf = (model: string): string => `${vendor}/${model}`;

  it('follows instructions, plain and streamed', async () => {
    const body = { model: modelOf('echo'), instructions: 'Be brief.', input: 'Where is Oslo?', metadata: { a: 'b' } };
    const plain = await responses().create(body);
    expect(lastRequest(lent()).path).toBe(paths[vendor]);
    const streamed = await responses().stream(body).finalResponse();
    for (const response of [plain, streamed]) {
      expect(response).toMatchObject({
        id: expect.stringMatching(/^resp_/),
        object: 'response',
        status: 'completed',
        model: 'echo',
        output_text: 'You said: Where is Oslo?',
        store: false,
        metadata: { a: 'b' },
        instructions: 'Be brief.',
        usage: { input_tokens: 6, output_tokens: 6, total_tokens: 12, output_tokens_details: { reasoning_tokens: 0 } },
      });
    }
    expect(await lastCall(lent())).toMatchObject({ route: 'responses', tokens: { input: 6, output: 6 } });
  });

  it.each(['tool', 'tools-parallel', 'tools-interleaved'])('runs a tool loop, plain and streamed: %s', async (model) => {
    const expected = toolInputs('Oslo').slice(0, model === 'tool' ? 1 : 2);
    const body = { model: modelOf(model), tools };
    const first = { ...body, input: 'Oslo' };
    for (const response of [await responses().create(first), await responses().stream(first).finalResponse()]) {
      const calls = response.output.flatMap((item) => (item.type === 'function_call' ? [item] : []));
      expect(calls.map(({ name, arguments: text }) => ({ name, input: JSON.parse(text) }))).toEqual(expected);
      const results = calls.map(({ call_id, name }): Item => ({ type: 'function_call_output', call_id, output: `${name} is done` }));
      const last = await responses().create({
        ...body,
        input: [{ role: 'user', content: 'Oslo' }, ...(response.output as Item[]), ...results],
      });
      expect(last.output_text).toContain(`${expected.at(-1)?.name} is done`);
    }
  });

  it('returns JSON that matches a schema', async () => {
    const format = zodTextFormat(z.object({ city: z.string(), days: z.int() }), 'place');
    const body = { model: modelOf('echo'), input: 'Oslo', text: { format } };
    expect((await responses().parse(body)).output_parsed).toEqual({ city: 'Oslo', days: 1 });
    expect((await responses().stream(body).finalResponse()).output_parsed).toEqual({ city: 'Oslo', days: 1 });
  });

  it('accepts images on the responses route', async () => {
    const image = { type: 'input_image' as const, detail: 'auto' as const, image_url: `data:image/png;base64,${pixel}` };
    const input = [{ role: 'user' as const, content: [{ type: 'input_text' as const, text: 'What is it?' }, image] }];
    expect((await responses().create({ model: modelOf('echo'), input })).output_text).toBe('You said: What is it? (and sent 1 attachment)');
  });
});

describe('memory and content rules on a translated responses call', () => {
  it('returns 403 guardrail_blocked for a blocked response, plain and streamed', async () => {
    const gateway = await lent().withProject('translated-rules');
    const rules = [{ class: 'email', place: 'output', action: 'block' }];
    await gateway.admin('PUT', `/provision/teams/${gateway.project}/rules`, { rules });
    const model = `messages/say-${Buffer.from('ada@example.com').toString('base64url')}`;
    for (const stream of [false, true]) {
      const answer = await gateway.call('/v1/responses', { model, input: 'Hi', stream });
      expect([answer.status, await answer.json()]).toMatchObject([403, { error: { code: 'guardrail_blocked' } }]);
    }
  });

  it('records a custom tool loop as one conversation', async () => {
    const gateway = lent();
    const responses = openaiOf(gateway).responses;
    const body = { model: 'messages/tool', tools: [{ type: 'custom' as const, name: 'run' }] };
    const ids: string[] = [];
    const input: Item[] = [{ role: 'user', content: 'Oslo in the rain' }];
    for (let turn = 0; turn < 2; turn += 1) {
      const { data, response } = await responses.create({ ...body, input }).withResponse();
      ids.push(response.headers.get('x-gateway-call-id') ?? '');
      input.push(...(data.output as Item[]));
      for (const item of data.output)
        if (item.type === 'custom_tool_call') input.push({ type: 'custom_tool_call_output', call_id: item.call_id, output: 'done' });
    }
    expect(input.at(2)).toMatchObject({ type: 'custom_tool_call_output' });
    const rows = await eventually(async () => {
      const stored = await gateway.database.query<{ id: string }>(
        'select conversation_id as id from call_texts where call_id = any($1::uuid[]) and conversation_id is not null',
        [ids],
      );
      if (stored.length < 2) throw new Error('the calls are not stored yet');
      return stored;
    });
    expect(new Set(rows.map(({ id }) => id)).size).toBe(1);
    const episode = await gateway.call(`/v1/memory/episodes/${rows[0]?.id}`);
    expect(await episode.json()).toMatchObject({
      messages: [
        { role: 'user', content: 'Oslo in the rain' },
        { role: 'assistant', tool_calls: [{ name: 'run', arguments: 'Oslo in the rain' }] },
        { role: 'assistant', content: 'The tool said: done' },
      ],
    });
  });
});

describe('vendors with and without the responses route', () => {
  it('translates the request for a vendor without the responses route', async () => {
    const responses = openaiOf(lent()).responses;
    partialPaths.length = 0;
    expect((await responses.create({ model: 'partial/echo', input: 'Hi' })).output_text).toBe('You said: Hi');
    expect(await lastCall(lent())).toMatchObject({
      attempts: [
        { n: 1, status: 404 },
        { n: 2, status: 200 },
      ],
    });
    expect((await responses.stream({ model: 'partial/echo', input: 'Hi' }).finalResponse()).output_text).toBe('You said: Hi');
    expect(partialPaths).toEqual(['/v1/responses', '/v1/chat/completions', '/v1/chat/completions']);
  });

  it('fails over to a vendor without the responses route', async () => {
    const responses = openaiOf(lent()).responses;
    expect((await responses.create({ model: 'mixed', input: 'Hi' })).output_text).toBe('You said: Hi');
    expect(lastRequest(lent()).path).toBe('/v1/messages');
    await responses.create({ model: 'stateful', input: 'Hi', previous_response_id: 'resp_1' });
    expect(lastRequest(lent())).toMatchObject({ path: '/v1/responses', json: { previous_response_id: 'resp_1' } });
  });

  it('returns 400 upstream_refused for a parameter that needs stored responses', async () => {
    const answer = await lent().call('/v1/responses', { model: 'messages/echo', input: 'Hi', previous_response_id: 'resp_1' });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({
      error: {
        code: 'upstream_refused',
        param: 'previous_response_id',
        message: expect.stringMatching(/^previous_response_id: .*send the whole conversation as input$/),
      },
    });
  });

  it('ends a broken translated stream with response.failed', async () => {
    const answer = await lent().call('/v1/responses', { model: 'messages/break-after-3+long-20', input: 'hi', stream: true });
    const events = (await answer.text()).trimEnd().split('\n\n');
    expect(events.at(-1)).toMatch(
      /^event: response\.failed\ndata: \{"type":"response\.failed",.*"status":"failed","error":\{"code":"server_error"/,
    );
    expect(await lastCall(lent())).toMatchObject({ outcome: 'interrupted', estimated: true, tokens: { output: expect.any(Number) } });
    expect((await lastCall(lent())).tokens.output).toBeGreaterThan(0);
  });
});
