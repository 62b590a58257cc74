import Anthropic from '@anthropic-ai/sdk';
import { toolResults } from './samples.js';

/** @param {any} job */
export async function createCases({ url, key, samples }) {
  const client = new Anthropic({ baseURL: url, apiKey: key });
  const ask = (content) => [{ role: 'user', content }];
  const tools = samples.tools.map(({ name, description, parameters }) => ({ name, description, input_schema: parameters }));
  const textOf = (message) => message.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
  const create = (body, options) => client.messages.create({ max_tokens: 500, ...body }, options);
  const stream = (body) => client.messages.stream({ max_tokens: 500, ...body });

  async function plain(body, options = {}) {
    const message = await create(body, options);
    return { text: textOf(message), tokens: { input: message.usage.input_tokens, output: message.usage.output_tokens } };
  }

  async function useTools(model, respond) {
    const messages = ask(samples.city);
    const first = await respond({ model, messages, tools });
    const uses = first.content.filter(({ type }) => type === 'tool_use');
    const results = uses.map(({ id, name }) => ({ type: 'tool_result', tool_use_id: id, content: toolResults[name] }));
    const last = await respond({
      model,
      messages: [...messages, { role: 'assistant', content: first.content }, { role: 'user', content: results }],
      tools,
    });
    return { text: textOf(last), calls: uses.map(({ name, input }) => ({ name, input })) };
  }

  return {
    plain: (model) => plain({ model, messages: ask(samples.question) }),
    async stream(model) {
      let pieces = 0;
      const running = stream({ model, messages: ask(samples.question) }).on('text', () => {
        pieces += 1;
      });
      return { text: textOf(await running.finalMessage()), pieces };
    },
    tools: (model) => useTools(model, (body) => create(body)),
    'stream-tools': (model) => useTools(model, (body) => stream(body).finalMessage()),
    'parallel-tools': (model) => useTools(model, (body) => stream(body).finalMessage()),
    // One forced tool: the way of all versions of the SDK.
    async structured(model) {
      const { content } = await create({ model, messages: ask(samples.city), tools, tool_choice: { type: 'tool', name: 'get_weather' } });
      return { value: content.find(({ type }) => type === 'tool_use').input };
    },
    images: (model) =>
      plain({
        model,
        messages: ask([
          { type: 'text', text: 'Inspect' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: samples.image } },
        ]),
      }),
    errors: (model) => plain({ model, messages: ask(samples.question) }),
    retries: (model) => plain({ model, messages: ask(samples.question) }),
    timeout: (model) => plain({ model, messages: ask(samples.question) }, { timeout: samples.timeoutMs, maxRetries: 0 }),
    async reasoning(model) {
      const thinking = { type: 'enabled', budget_tokens: 1_024 };
      const seen = { text: '', reasoning: '' };
      for await (const { delta } of await create({ model, max_tokens: 2_000, thinking, messages: ask(samples.question), stream: true })) {
        seen.text += delta?.text ?? '';
        seen.reasoning += delta?.thinking ?? '';
      }
      return seen;
    },
    ...(client.models && {
      async models() {
        const ids = [];
        for await (const { id } of client.models.list()) ids.push(id);
        return { ids };
      },
    }),
    ...(client.messages.countTokens && {
      async 'count-tokens'(model) {
        const { input_tokens: count } = await client.messages.countTokens({ model, messages: ask(samples.question) });
        return { count };
      },
    }),
  };
}
