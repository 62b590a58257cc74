/**
 * Tests SDK features that are built on single calls, i.e. tool loops and responses that are parsed by a schema, with
 * vendors of both dialects.
 */
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { describe, expect, it } from '@jest/globals';
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { shareGateway } from '../support/gateway.ts';
import type { Dialect } from './dialects-gateway.ts';
import { anthropicOf, citySchema, dialects, openaiOf, providersYaml, timeSchema, vendors } from './dialects-gateway.ts';

const lent = shareGateway({ database: 'any', yaml: providersYaml });
const stay = z.object({ city: z.string(), days: z.number() });
const oslo = { city: 'Oslo', days: 1 };
const messages = [{ role: 'user' as const, content: 'Oslo' }];
const modelOf = (vendor: Dialect, name: string): string => `${vendors[vendor]}/${name}`;
/** The scripted vendor repeats the tool results of a turn in order, but on chat only the last one. */
const toolResult = /^The tool said: .*noon in Oslo$/s;

describe.each(dialects)('the openai SDK with a %s vendor', (vendor) => {
  const tools = [
    { name: 'get_weather', parameters: citySchema, answer: 'snow' },
    { name: 'get_time', parameters: timeSchema, answer: 'noon in Oslo' },
  ].map(({ name, parameters, answer }) => ({
    type: 'function' as const,
    function: { name, description: name, parameters, parse: JSON.parse, function: () => answer },
  }));

  it('runs tools until the model gives its final response, plain and streamed', async () => {
    const { chat } = openaiOf(lent());
    const asked = { model: modelOf(vendor, 'tools-parallel'), messages, tools };
    expect(await chat.completions.runTools(asked).finalContent()).toMatch(toolResult);
    expect(await chat.completions.runTools({ ...asked, stream: true }).finalContent()).toMatch(toolResult);
  });

  it('parses a structured response, plain and streamed', async () => {
    const { completions } = openaiOf(lent()).chat;
    const asked = { model: modelOf(vendor, 'echo'), messages, response_format: zodResponseFormat(stay, 'stay') };
    expect((await completions.parse(asked)).choices[0]?.message.parsed).toEqual(oslo);
    expect((await completions.stream(asked).finalChatCompletion()).choices[0]?.message.parsed).toEqual(oslo);
  });
});

describe.each(dialects)('the anthropic SDK with a %s vendor', (vendor) => {
  const tools = [
    betaTool({ name: 'get_weather', description: 'Weather', inputSchema: citySchema, run: () => 'snow' }),
    betaTool({ name: 'get_time', description: 'Time', inputSchema: timeSchema, run: () => 'noon in Oslo' }),
  ];

  it('runs tools until the model gives its final response, plain and streamed', async () => {
    const { messages: beta } = anthropicOf(lent()).beta;
    const asked = { model: modelOf(vendor, 'tools-parallel'), max_tokens: 300, messages, tools };
    expect((await beta.toolRunner(asked)).content).toEqual([{ type: 'text', text: expect.stringMatching(toolResult) }]);
    const turns: string[][] = [];
    for await (const turn of beta.toolRunner({ ...asked, stream: true })) {
      turns.push((await turn.finalMessage()).content.map(({ type }) => type));
    }
    expect(turns).toEqual([['tool_use', 'tool_use'], ['text']]);
  });

  it('returns the final message and text of a stream', async () => {
    const stream = anthropicOf(lent()).messages.stream({ model: modelOf(vendor, 'echo'), max_tokens: 100, messages });
    expect(await stream.finalText()).toBe('You said: Oslo');
    expect(await stream.finalMessage()).toMatchObject({ stop_reason: 'end_turn', usage: { input_tokens: 1, output_tokens: 4 } });
  });
});

it('parses a structured response on the responses route', async () => {
  const asked = { model: modelOf('chat', 'echo'), input: 'Oslo', text: { format: zodTextFormat(stay, 'stay') } };
  expect((await openaiOf(lent()).responses.parse(asked)).output_parsed).toEqual(oslo);
});
