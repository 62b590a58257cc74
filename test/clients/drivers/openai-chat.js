import OpenAI from 'openai';
import { toolResults } from './samples.js';

/** @param {any} job */
export async function createCases({ url, key, samples }) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key });
  const { completions } = client.chat;
  const ask = (content) => [{ role: 'user', content }];
  const tools = samples.tools.map((fn) => ({ type: 'function', function: fn }));

  async function streamed(body) {
    let text = '';
    let reasoning = '';
    let pieces = 0;
    const calls = [];
    for await (const chunk of await completions.create({ ...body, stream: true })) {
      // The usual loop: it fails on a chunk without choices.
      const { delta } = chunk.choices[0];
      if (delta.content) pieces += 1;
      text += delta.content ?? '';
      reasoning += delta.reasoning_content ?? '';
      for (const { index, id, function: fn } of delta.tool_calls ?? []) {
        if (id) calls[index] = { id, type: 'function', function: { name: fn.name, arguments: '' } };
        calls[index].function.arguments += fn.arguments ?? '';
      }
    }
    return { text, reasoning, pieces, calls };
  }

  async function useTools(model, respond) {
    const messages = ask(samples.city);
    const first = await respond({ model, messages, tools });
    messages.push({ role: 'assistant', content: null, tool_calls: first.calls });
    for (const call of first.calls) messages.push({ role: 'tool', tool_call_id: call.id, content: toolResults[call.function.name] });
    const { text } = await respond({ model, messages, tools });
    return { text, calls: first.calls.map(({ function: fn }) => ({ name: fn.name, input: JSON.parse(fn.arguments) })) };
  }

  async function plain(body, options = {}) {
    const { choices, usage } = await completions.create(body, options);
    const { content, tool_calls: calls } = choices[0].message;
    return { text: content, calls, tokens: { input: usage.prompt_tokens, output: usage.completion_tokens } };
  }

  return {
    plain: (model) => plain({ model, messages: ask(samples.question) }),
    stream: (model) => streamed({ model, messages: ask(samples.question) }),
    tools: (model) => useTools(model, plain),
    'stream-tools': (model) => useTools(model, streamed),
    'parallel-tools': (model) => useTools(model, streamed),
    async structured(model) {
      const parse = completions.parse?.bind(completions) ?? client.beta.chat.completions.parse.bind(client.beta.chat.completions);
      const schema = { name: 'weather', strict: true, schema: samples.tools[0].parameters };
      const { choices } = await parse({
        model,
        messages: ask(samples.city),
        response_format: { type: 'json_schema', json_schema: schema, $parseRaw: JSON.parse },
      });
      return { value: choices[0].message.parsed ?? JSON.parse(choices[0].message.content) };
    },
    images: (model) =>
      plain({
        model,
        messages: ask([
          { type: 'text', text: 'Inspect' },
          { type: 'image_url', image_url: { url: `data:image/png;base64,${samples.image}` } },
        ]),
      }),
    errors: (model) => plain({ model, messages: ask(samples.question) }),
    retries: (model) => plain({ model, messages: ask(samples.question) }),
    timeout: (model) => plain({ model, messages: ask(samples.question) }, { timeout: samples.timeoutMs, maxRetries: 0 }),
    reasoning: (model) => streamed({ model, messages: ask(samples.question), reasoning_effort: 'low' }),
    async models() {
      const ids = [];
      for await (const { id } of client.models.list()) ids.push(id);
      return { ids };
    },
  };
}
