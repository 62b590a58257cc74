/** Flavors: `chat` and `responses` of @ai-sdk/openai, `messages` of @ai-sdk/anthropic. */
import * as ai from 'ai';
import { toolResults } from './samples.js';

globalThis.AI_SDK_LOG_WARNINGS = false;

/** @param {any} job */
export async function createCases({ url, key, flavor, samples }) {
  const modelOf = await createModel(url, key, flavor);
  // With the default the SDK sends the ids of earlier items, which only a vendor that stores them can read.
  const withoutStore = flavor === 'responses' ? { providerOptions: { openai: { store: false } } } : {};
  const prompt = samples.question;
  // Older versions limit the steps by a number.
  const steps = ai.stepCountIs ? { stopWhen: ai.stepCountIs(3) } : ai.isStepCount ? { stopWhen: ai.isStepCount(3) } : { maxSteps: 3 };
  const tools = Object.fromEntries(
    samples.tools.map(({ name, description, parameters }) => {
      const schema = ai.jsonSchema(parameters);
      return [name, { description, inputSchema: schema, parameters: schema, execute: async () => toolResults[name] }];
    }),
  );
  const callsOf = (allSteps) =>
    allSteps.flatMap(({ toolCalls }) => toolCalls.map(({ toolName, input, args }) => ({ name: toolName, input: input ?? args })));

  async function plain(request) {
    const { text, usage } = await ai.generateText({ ...withoutStore, ...request });
    return { text, tokens: { input: usage.inputTokens ?? usage.promptTokens, output: usage.outputTokens ?? usage.completionTokens } };
  }

  async function streamTools(model) {
    const result = ai.streamText({ model: modelOf(model), prompt: samples.city, tools, ...steps, ...withoutStore });
    let text = '';
    for await (const piece of result.textStream) text += piece;
    return { text, calls: callsOf(await result.steps) };
  }

  return {
    plain: (model) => plain({ model: modelOf(model), prompt }),
    async stream(model) {
      let text = '';
      let pieces = 0;
      for await (const piece of ai.streamText({ model: modelOf(model), prompt }).textStream) {
        pieces += 1;
        text += piece;
      }
      return { text, pieces };
    },
    async tools(model) {
      const { text, steps: done } = await ai.generateText({
        model: modelOf(model),
        prompt: samples.city,
        tools,
        ...steps,
        ...withoutStore,
      });
      return { text, calls: callsOf(done) };
    },
    'stream-tools': streamTools,
    'parallel-tools': streamTools,
    async structured(model) {
      const schema = ai.jsonSchema(samples.tools[0].parameters);
      if (ai.generateObject) return { value: (await ai.generateObject({ model: modelOf(model), prompt: samples.city, schema })).object };
      const { output } = await ai.generateText({ model: modelOf(model), prompt: samples.city, output: ai.Output.object({ schema }) });
      return { value: output };
    },
    images: (model) =>
      plain({
        model: modelOf(model),
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'Inspect' },
              { type: 'image', image: samples.image, mediaType: 'image/png' },
            ],
          },
        ],
      }),
    errors: (model) => plain({ model: modelOf(model), prompt, maxRetries: 0 }),
    retries: (model) => plain({ model: modelOf(model), prompt }),
    timeout: (model) => plain({ model: modelOf(model), prompt, maxRetries: 0, abortSignal: AbortSignal.timeout(samples.timeoutMs) }),
    ...(flavor === 'responses' && {
      async references(model) {
        const first = await ai.generateText({ model: modelOf(model), prompt: samples.city });
        const messages = [{ role: 'user', content: samples.city }, ...first.response.messages, { role: 'user', content: prompt }];
        return { text: (await ai.generateText({ model: modelOf(model), messages })).text };
      },
    }),
    // Chat models of this SDK show no reasoning.
    ...(flavor !== 'chat' && {
      async reasoning(model) {
        const thinking = { anthropic: { thinking: { type: 'enabled', budgetTokens: 1_024 } } };
        const request = { model: modelOf(model), prompt, ...(flavor === 'messages' ? { providerOptions: thinking } : withoutStore) };
        const result = ai.streamText(request);
        return { text: await result.text, reasoning: await result.reasoningText };
      },
    }),
  };
}

async function createModel(url, key, flavor) {
  const settings = { baseURL: `${url}/v1`, apiKey: key };
  if (flavor === 'messages') return (await import('@ai-sdk/anthropic')).createAnthropic(settings);
  const openai = (await import('@ai-sdk/openai')).createOpenAI(settings);
  return flavor === 'chat' ? openai.chat : openai.responses;
}
