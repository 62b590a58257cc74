/** Tests applications that use the vendors' SDKs. Only the base URL and key are changed. */
import Anthropic from '@anthropic-ai/sdk';
import { describe, expect, it } from '@jest/globals';
import OpenAI from 'openai';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, jsonOf, withGateway } from '../support/gateway.ts';

interface Usage {
  readonly spend: number;
  readonly by_model: readonly { readonly model: string; readonly cost: number; readonly calls: number }[];
  readonly by_task: unknown;
  readonly by_source: unknown;
}

const question = [{ role: 'user' as const, content: 'What is the capital of Norway?' }];

function openaiOf({ url, key }: TestGateway): OpenAI {
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
}

function anthropicOf({ url, key }: TestGateway): Anthropic {
  return new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
}

describe('the SDKs of both dialects', () => {
  it('serves calls from both SDKs and includes them in usage reports', () =>
    withGateway({ database: 'any' }, async (gateway) => {
      const openai = openaiOf(gateway);
      const anthropic = anthropicOf(gateway);

      const plain = await openai.chat.completions.create({ model: 'standard', messages: question });
      expect(plain.choices[0]?.message.content).toContain('capital of Norway');

      let streamed = '';
      for await (const chunk of await openai.chat.completions.create({ model: 'one/echo', messages: question, stream: true })) {
        streamed += chunk.choices[0]?.delta.content ?? '';
      }
      expect(streamed).toBe(plain.choices[0]?.message.content);

      const message = await anthropic.messages.create({ model: 'three/echo', max_tokens: 100, messages: question });
      const block = message.content[0];
      expect(block?.type === 'text' ? block.text : '').toContain('capital of Norway');

      const stream = anthropic.messages.stream({ model: 'three/echo', max_tokens: 100, messages: question });
      expect((await stream.finalMessage()).content).toEqual(message.content);

      const usage = await jsonOf<Usage>(gateway.call('/usage/me'));
      expect(usage).toMatchObject({ currency: 'USD', monthly_cap: null, by_source: [{ source: 'acme', calls: 4 }] });
      expect(usage.by_model.map((row) => [row.model, row.calls]).sort()).toEqual([
        ['one/echo', 2],
        ['three/echo', 2],
      ]);
      for (const row of usage.by_model)
        expect(row).toEqual({ model: expect.any(String), cost: expect.any(Number), tokens: expect.any(Number), calls: 2 });
      expect(usage.spend).toBeGreaterThan(0);
      expect(usage.spend).toBeCloseTo(
        usage.by_model.reduce((sum, row) => sum + row.cost, 0),
        9,
      );

      const status = await jsonOf<{ breakers: unknown }>(gateway.call('/status/peek'));
      const window = { used: expect.any(Number), reserved: 0, limit: null, remaining: null, resets_at: expect.any(String) };
      expect(status).toMatchObject({
        project: 'acme',
        key: {
          prefix: expect.stringMatching(/^[a-z0-9]{8}$/),
          expires_at: null,
          ceilings: {
            calls: { ...window, used: 4, window: 'month' },
            cost: { ...window, used: usage.spend, window: 'month' },
            rpm: { ...window, window: 'minute' },
            tpm: { ...window, window: 'minute' },
          },
        },
        credit: { state: 'ok', monthly_cap: null, spent: usage.spend },
      });
      expect(status.breakers).toContainEqual({ provider: 'one', state: 'closed', failures: 0, opened_at: null, retry_at: null });

      const calls = await callsOf(gateway);
      expect(calls).toHaveLength(4);
      expect(calls[0]).toMatchObject({
        route: 'messages',
        stream: true,
        model: 'three/echo',
        status: 200,
        outcome: 'ok',
        estimated: false,
        attempts: [{ n: 1, provider: 'three' }],
      });
      const total = calls.reduce((sum, call) => sum + call.cost, 0);
      expect(total).toBeCloseTo(usage.spend, 9);
    }));

  it('returns tool calls in plain and streamed responses', () =>
    withGateway({ database: 'any' }, async (gateway) => {
      const tools = [
        {
          type: 'function' as const,
          function: { name: 'weather', description: 'Weather', parameters: { type: 'object', properties: {} } },
        },
      ];
      const openai = openaiOf(gateway);
      const plain = await openai.chat.completions.create({ model: 'one/tool', messages: question, tools });
      const streamed = await openai.chat.completions.stream({ model: 'one/tool', messages: question, tools }).finalChatCompletion();
      const callOf = (completion: typeof plain) => {
        const call = completion.choices[0]?.message.tool_calls?.[0];
        return call?.type === 'function' ? call.function : null;
      };
      expect(callOf(plain)?.name).toBe('weather');
      expect(callOf(streamed)).toMatchObject({ name: callOf(plain)?.name, arguments: callOf(plain)?.arguments });
    }));
});

describe('correlation headers', () => {
  it('stores correlation headers with the call and groups costs by task', () =>
    withGateway({ database: 'any' }, async (gateway) => {
      const headers = {
        'x-gateway-task-id': 't-17',
        'x-gateway-turn-id': 'turn-1',
        'x-gateway-agent-id': 'agent-1',
        'x-gateway-trigger-kind': 'cron',
        'x-gateway-trigger-detail': 'nightly \u00e9',
        'x-gateway-iteration': '3',
        'x-gateway-distil-saved': 'many',
        'x-gateway-source': 'mailer',
      };
      const latin = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, Buffer.from(value).toString('latin1')]));
      await gateway.call('/v1/chat/completions', { model: 'one/echo', messages: question }, latin);
      const usage = await jsonOf<Usage>(gateway.call('/usage/me'));
      expect(usage.by_task).toEqual([{ task_id: 't-17', cost: usage.spend, tokens: expect.any(Number), calls: 1 }]);
      expect(usage.by_source).toEqual([{ source: 'mailer', cost: usage.spend, tokens: expect.any(Number), calls: 1 }]);
      expect(await callsOf(gateway, '?task_id=t-17&source=mailer')).toMatchObject([
        {
          turn_id: 'turn-1',
          agent_id: 'agent-1',
          trigger_kind: 'cron',
          trigger_detail: 'nightly \u00e9',
          iteration: 3,
          distil_saved: null,
          source: 'mailer',
        },
      ]);
    }));
});
