/** Providers on the scripted vendor, SDK clients and requests, for tests with both dialects. */
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import type { CallRow, TestGateway } from '../support/gateway.ts';
import { callsOf, eventually } from '../support/gateway.ts';

/** The names of the providers, by dialect. */
export const vendors = { chat: 'one', messages: 'three' } as const;
export type Dialect = keyof typeof vendors;
export const dialects: readonly Dialect[] = ['chat', 'messages'];
export const paths = { chat: '/v1/chat/completions', messages: '/v1/messages' } as const;

/** A caller and a vendor, each of one dialect, in all four combinations. */
export interface Way {
  readonly caller: Dialect;
  readonly vendor: Dialect;
}
export const ways: readonly Way[] = dialects.flatMap((caller) => dialects.map((vendor) => ({ caller, vendor })));
export const translatedWays = ways.filter(({ caller, vendor }) => caller !== vendor);

export function otherOf(dialect: Dialect): Dialect {
  return dialect === 'chat' ? 'messages' : 'chat';
}

/** `one` and `two` use chat, `three` and `four` use messages. `hasty` and `hasty-messages` have short timeouts. */
export function providersYaml(vendorUrl: string, deadUrl: string): string {
  const row = (name: string, dialect: Dialect, more = ''): string =>
    `  ${name}: { base_url: ${name.startsWith('dead') ? deadUrl : vendorUrl}/v1, api_key: key-${name}, dialect: ${dialect}${more} }`;
  const hasty = ', first_byte_timeout_ms: 1500, idle_timeout_ms: 1500';
  return [
    'providers:',
    row('one', 'chat'),
    row('two', 'chat'),
    row('three', 'messages', ', headers: { x-row: "of three" }'),
    row('four', 'messages'),
    row('hasty', 'chat', hasty),
    row('hasty-messages', 'messages', hasty),
    row('dead', 'chat'),
    row('dead-messages', 'messages'),
    '',
  ].join('\n');
}

export function openaiOf({ url, key }: TestGateway): OpenAI {
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
}

export function anthropicOf({ url, key }: TestGateway): Anthropic {
  return new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
}

export function vercelOpenaiOf({ url, key }: TestGateway): ReturnType<typeof createOpenAI> {
  return createOpenAI({ baseURL: `${url}/v1`, apiKey: key });
}

export function vercelAnthropicOf({ url, key }: TestGateway): ReturnType<typeof createAnthropic> {
  return createAnthropic({ baseURL: `${url}/v1`, apiKey: key });
}

/** A PNG of one pixel. */
export const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
export const webImage = 'https://images.example.com/cat.webp';

/** JSON schemas of the tools in the requests. */
export const citySchema = {
  type: 'object' as const,
  properties: { city: { type: 'string' as const }, days: { type: 'integer' as const } },
};
export const timeSchema = { type: 'object' as const, properties: { zone: { type: 'string' as const } } };

export const chatTools = [
  { type: 'function' as const, function: { name: 'get_weather', description: 'Weather of a city', parameters: citySchema } },
  { type: 'function' as const, function: { name: 'get_time', description: 'Time of a zone', parameters: timeSchema } },
];

export const messagesTools = [
  { name: 'get_weather', description: 'Weather of a city', input_schema: citySchema },
  { name: 'get_time', description: 'Time of a zone', input_schema: timeSchema },
];

/** The arguments that the scripted vendor sends to both tools. */
export const toolInputs = (said: string) => [
  { name: 'get_weather', input: { city: said, days: 1 } },
  { name: 'get_time', input: { zone: said } },
];

/** The longest wait for the drain, which has to suffice on a busy machine too. */
export function lastCall(gateway: TestGateway): Promise<CallRow> {
  return eventually(async () => {
    const [call] = await callsOf(gateway, '?limit=1');
    if (!call) throw new Error('no call was recorded');
    return call;
  });
}

/** Returns the body and headers of the last request to the vendor. */
export function lastRequest({ vendor }: TestGateway) {
  const request = vendor.requests().at(-1);
  if (!request) throw new Error('the vendor has been asked nothing');
  const text = request.body.toString('utf8');
  return { path: request.path, headers: request.headers, text, json: JSON.parse(text) as Record<string, unknown> };
}
