/**
 * Tests that a stream only contains what its caller asked for. There's no usage event unless it was requested,
 * reasoning is in the caller's dialect, and ids are the ones that SDKs show.
 */
import { describe, expect, it } from '@jest/globals';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, eventually, shareGateway } from '../support/gateway.ts';
import { anthropicOf, openaiOf, paths, vendors } from './dialects-gateway.ts';
import { projectLender } from './inference-routes.ts';

const gateway = shareGateway({ database: 'any', cache: true });
const lendProject = projectLender(gateway, 'surprises');

const messages = [{ role: 'user' as const, content: 'Hi' }];
const asking = { stream_options: { include_usage: true } };

interface Streamed {
  readonly text: string;
  readonly cache: string | null;
}

async function stream(lent: TestGateway, model: string, more: object = {}): Promise<Streamed> {
  const response = await lent.call(paths.chat, { model, messages, stream: true, ...more });
  expect(response.status).toBe(200);
  return { text: await response.text(), cache: response.headers.get('x-gateway-cache') };
}

const usageEvent = /data: \{[^\n]*"choices":\[\],"usage":\{[^\n]*\}\n\n/;

describe('a streamed chat response', () => {
  it.each([
    ['a chat vendor', 'one/echo'],
    ['a chat vendor in single bytes', 'one/tiny-bytes+echo'],
    ['a chat vendor without [DONE]', 'one/no-done+echo'],
    ['a messages vendor', 'three/echo'],
    ['a messages vendor in single bytes', 'three/tiny-bytes+echo'],
  ])('includes usage in a stream from %s only if the caller asked for it', async (_vendor, model) => {
    const [one, two] = [await lendProject(), await lendProject()];
    const silent = await stream(one, model);
    const asked = await stream(two, model, asking);
    expect(asked.text).toMatch(usageEvent);
    const withoutIds = ({ text }: Streamed): string => text.replaceAll(/"id":"[^"]*"|"created":\d+/g, '');
    expect(withoutIds(silent)).toBe(withoutIds({ ...asked, text: asked.text.replace(usageEvent, '') }));
    const replays = [await stream(one, model, asking), await stream(two, model)];
    expect(replays.map(({ cache }) => cache)).toEqual(['hit', 'hit']);
    expect(replays.map(withoutIds)).toEqual([asked, silent].map(withoutIds));
    // Usage is recorded for both callers.
    for (const lent of [one, two]) {
      const [, call] = await eventually(async () => {
        const calls = await callsOf(lent);
        expect(calls).toHaveLength(2);
        return calls;
      });
      expect(call).toMatchObject({ estimated: false, tokens: { output: expect.any(Number) } });
    }
  });

  it('converts a cached response into a stream that includes usage only if the caller asked for it', async () => {
    const lent = await lendProject();
    await lent.call(paths.chat, { model: 'one/echo', messages });
    const [silent, asked] = [await stream(lent, 'one/echo'), await stream(lent, 'one/echo', asking)];
    expect([silent.cache, asked.cache]).toEqual(['hit', 'hit']);
    expect(silent.text).not.toMatch(usageEvent);
    expect(asked.text).toMatch(usageEvent);
  });

  it.each(Object.values(vendors))('includes a choice in every chat chunk from %s', async (provider) => {
    const chunks = await openaiOf(await lendProject()).chat.completions.create({ model: `${provider}/echo`, messages, stream: true });
    let text = '';
    for await (const { choices } of chunks) {
      expect(choices).toHaveLength(1);
      text += choices[0]?.delta.content ?? '';
    }
    expect(text).toContain('Hi');
  });

  it('forwards usage that the vendor sends together with the finish reason', async () => {
    const { text } = await stream(await lendProject(), 'one/usage-in-finish+echo');
    expect(text).toMatch(/"finish_reason":"stop"\}\],"usage":\{"prompt_tokens"/);
  });
});

describe('response and call ids', () => {
  it.each(Object.values(vendors))('exposes the call id and the response id through the SDKs (%s)', async (provider) => {
    const lent = await lendProject();
    const model = `${provider}/echo`;
    const completion = await openaiOf(lent).chat.completions.create({ model, messages });
    const message = await anthropicOf(lent).messages.create({ model, max_tokens: 100, messages });
    const streamed = await anthropicOf(lent)
      .messages.stream({ model, max_tokens: 100, messages: [...messages] })
      .finalMessage();
    expect(completion.id).toMatch(/^chatcmpl-/);
    expect([message.id, streamed.id]).toEqual([expect.stringMatching(/^msg_/), expect.stringMatching(/^msg_/)]);
    const ids = (await callsOf(lent)).map(({ id }) => id);
    expect(ids).toContain(completion._request_id);
    expect(ids).toContain(message._request_id);
  });

  it('returns the call id of a failed request in the header that the SDKs read', async () => {
    const lent = await lendProject();
    for (const [path, name] of [
      [paths.chat, 'x-request-id'],
      [paths.messages, 'request-id'],
      ['/v1/embeddings', 'x-request-id'],
      ['/v1/images/generations', 'x-request-id'],
    ] as const) {
      const { headers, status } = await lent.call(path, { model: 7 });
      expect([path, status, headers.get(name)]).toEqual([path, 400, headers.get('x-gateway-call-id')]);
      expect(headers.get(name)).toMatch(/^[0-9a-f-]{36}$/);
    }
  });
});
