/** Flavors: `responses` and `chat`, the two model classes of @openai/agents. */
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, setTracingDisabled, tool } from '@openai/agents';
import OpenAI from 'openai';
import { toolResults } from './samples.js';

setTracingDisabled(true);

/** @param {any} job */
export async function createCases({ url, key, flavor, samples }) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key });
  const Model = flavor === 'chat' ? OpenAIChatCompletionsModel : OpenAIResponsesModel;
  const runner = new Runner({ tracingDisabled: true });

  function createAgent(model, more = {}) {
    return new Agent({ name: 'assistant', instructions: 'Answer briefly.', model: new Model(client, model), ...more });
  }

  async function useTools(model, run) {
    const calls = [];
    const tools = samples.tools.map((fn) =>
      tool({
        ...fn,
        strict: true,
        async execute(input) {
          calls.push({ name: fn.name, input });
          return toolResults[fn.name];
        },
      }),
    );
    const text = await run(createAgent(model, { tools }), samples.city);
    return { text, calls };
  }

  const plain = async (agent, input) => (await runner.run(agent, input)).finalOutput;
  async function streamed(agent, input) {
    const result = await runner.run(agent, input, { stream: true });
    for await (const _event of result.toStream());
    await result.completed;
    return result.finalOutput;
  }

  return {
    plain: async (model) => ({ text: await plain(createAgent(model), samples.question) }),
    async stream(model) {
      const result = await runner.run(createAgent(model), samples.question, { stream: true });
      let text = '';
      let pieces = 0;
      for await (const piece of result.toTextStream()) {
        pieces += 1;
        text += piece;
      }
      return { text, pieces };
    },
    tools: (model) => useTools(model, plain),
    'stream-tools': (model) => useTools(model, streamed),
    'parallel-tools': (model) => useTools(model, plain),
    async structured(model) {
      const outputType = { type: 'json_schema', name: 'weather', strict: true, schema: samples.tools[0].parameters };
      return { value: await plain(createAgent(model, { outputType }), samples.city) };
    },
    async images(model) {
      const content = [
        { type: 'input_text', text: 'Inspect' },
        { type: 'input_image', image: `data:image/png;base64,${samples.image}` },
      ];
      return { text: await plain(createAgent(model), [{ role: 'user', content }]) };
    },
    errors: async (model) => ({ text: await plain(createAgent(model), samples.question) }),
    retries: async (model) => ({ text: await plain(createAgent(model), samples.question) }),
    // Chat models of this package show no reasoning.
    ...(flavor === 'responses' && {
      async reasoning(model) {
        const { finalOutput: text, newItems } = await runner.run(createAgent(model), samples.question);
        const { rawItem } = newItems.find(({ type }) => type === 'reasoning_item');
        return { text, reasoning: rawItem.content.map((part) => part.text).join('') };
      },
    }),
  };
}
