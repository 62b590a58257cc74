/** Flavors: `chat` by Mastra's own models of an address, `responses` and `messages` by those of the AI SDK. */
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { Agent } from '@mastra/core/agent';
import { createTool } from '@mastra/core/tools';
import { z } from 'zod';
import { toolResults } from './samples.js';

/** @param {any} job */
export async function createCases({ url, key, flavor, samples }) {
  const settings = { baseURL: `${url}/v1`, apiKey: key };
  const modelOf = {
    chat: (model) => ({ id: `gateway/${model}`, url: `${url}/v1`, apiKey: key }),
    responses: (model) => createOpenAI(settings).responses(model),
    messages: (model) => createAnthropic(settings)(model),
  }[flavor];
  // As in ai-sdk.js.
  const options = flavor === 'responses' ? { providerOptions: { openai: { store: false } } } : {};
  const agentOf = (model, more = {}) =>
    new Agent({ id: 'assistant', name: 'assistant', instructions: 'Answer briefly.', model: modelOf(model), maxRetries: 2, ...more });

  const schemas = { get_weather: z.object({ city: z.string(), days: z.int() }), get_time: z.object({ zone: z.string() }) };
  async function useTools(model, run) {
    const calls = [];
    const tools = Object.fromEntries(
      samples.tools.map(({ name, description }) => [
        name,
        createTool({
          ...{ id: name, description, inputSchema: schemas[name] },
          async execute(input) {
            calls.push({ name, input });
            return toolResults[name];
          },
        }),
      ]),
    );
    return { text: await run(agentOf(model, { tools }), samples.city), calls };
  }

  async function plain(agent, input) {
    const { text, usage } = await agent.generate(input, options);
    return { text, tokens: { input: usage.inputTokens, output: usage.outputTokens } };
  }
  const streamed = async (agent, input) => (await agent.stream(input, options)).text;

  return {
    plain: (model) => plain(agentOf(model), samples.question),
    async stream(model) {
      let text = '';
      let pieces = 0;
      for await (const piece of (await agentOf(model).stream(samples.question, options)).textStream) {
        pieces += 1;
        text += piece;
      }
      return { text, pieces };
    },
    tools: (model) => useTools(model, async (agent, input) => (await plain(agent, input)).text),
    'stream-tools': (model) => useTools(model, streamed),
    'parallel-tools': (model) => useTools(model, streamed),
    async structured(model) {
      const { object } = await agentOf(model).generate(samples.city, { ...options, structuredOutput: { schema: schemas.get_weather } });
      return { value: object };
    },
    images: (model) =>
      plain(agentOf(model), [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Inspect' },
            { type: 'image', image: samples.image, mimeType: 'image/png' },
          ],
        },
      ]),
    errors: (model) => plain(agentOf(model, { maxRetries: 0 }), samples.question),
    retries: (model) => plain(agentOf(model), samples.question),
    async reasoning(model) {
      const thinking = { providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1_024 } } } };
      const result = await agentOf(model).stream(samples.question, flavor === 'messages' ? thinking : options);
      return { text: await result.text, reasoning: await result.reasoningText };
    },
  };
}
