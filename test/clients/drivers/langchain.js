/** Flavors: `chat` and `responses` of @langchain/openai, `messages` of @langchain/anthropic. */
import { ContextOverflowError } from '@langchain/core/errors';
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { toolResults } from './samples.js';

/** @param {any} job */
export async function createCases({ url, key, flavor, samples }) {
  const packageOf = flavor === 'messages' ? await import('@langchain/anthropic') : await import('@langchain/openai');
  const modelOf = (model, more = {}) =>
    flavor === 'messages'
      ? new packageOf.ChatAnthropic({ model, apiKey: key, anthropicApiUrl: url, maxTokens: 500, ...more })
      : new packageOf.ChatOpenAI({
          model,
          apiKey: key,
          configuration: { baseURL: `${url}/v1` },
          useResponsesApi: flavor === 'responses',
          ...more,
        });
  const tools = samples.tools.map((fn) => ({ type: 'function', function: fn }));

  async function plain(model, messages, more) {
    const message = await modelOf(model, more).invoke(messages);
    const { input_tokens: input, output_tokens: output } = message.usage_metadata;
    return { text: message.text, tokens: { input, output } };
  }

  async function streamed(model, messages) {
    let whole;
    let pieces = 0;
    for await (const chunk of await model.stream(messages)) {
      if (chunk.text) pieces += 1;
      whole = whole === undefined ? chunk : whole.concat(chunk);
    }
    return { message: whole, pieces };
  }

  async function useTools(model, respond) {
    const bound = modelOf(model).bindTools(tools);
    const messages = [new HumanMessage(samples.city)];
    const first = await respond(bound, messages);
    const results = first.tool_calls.map(({ id, name }) => new ToolMessage({ tool_call_id: id, content: toolResults[name] }));
    const last = await respond(bound, [...messages, first, ...results]);
    return { text: last.text, calls: first.tool_calls.map(({ name, args }) => ({ name, input: args })) };
  }

  const respondStreamed = async (model, messages) => (await streamed(model, messages)).message;
  return {
    plain: (model) => plain(model, samples.question),
    async stream(model) {
      const { message, pieces } = await streamed(modelOf(model), samples.question);
      return { text: message.text, pieces };
    },
    tools: (model) => useTools(model, (bound, messages) => bound.invoke(messages)),
    'stream-tools': (model) => useTools(model, respondStreamed),
    'parallel-tools': (model) => useTools(model, respondStreamed),
    async structured(model) {
      return {
        value: await modelOf(model)
          .withStructuredOutput({ title: 'weather', ...samples.tools[0].parameters })
          .invoke(samples.city),
      };
    },
    images: (model) =>
      plain(model, [
        new HumanMessage({
          content: [
            { type: 'text', text: 'Inspect' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${samples.image}` } },
          ],
        }),
      ]),
    errors: (model) => plain(model, samples.question, { maxRetries: 0 }),
    retries: (model) => plain(model, samples.question),
    async overflow(model) {
      try {
        return await plain(model, samples.question, { maxRetries: 0 });
      } catch (error) {
        return { overflow: ContextOverflowError.isInstance(error), error: { name: error.constructor.name, message: error.message } };
      }
    },
    // Chat models of this package show no reasoning.
    ...(flavor !== 'chat' && {
      async reasoning(model) {
        const thinking = flavor === 'messages' ? { thinking: { type: 'enabled', budget_tokens: 1_024 }, maxTokens: 2_000 } : {};
        const { message } = await streamed(modelOf(model, thinking), samples.question);
        const reasoning = message.contentBlocks.filter(({ type }) => type === 'reasoning');
        return { text: message.text, reasoning: reasoning.map((block) => block.reasoning).join('') };
      },
    }),
  };
}
