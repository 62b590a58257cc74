import OpenAI from 'openai';
import { toolResults } from './samples.js';

/** @param {any} job */
export async function createCases({ url, key, samples }) {
  const { responses } = new OpenAI({ baseURL: `${url}/v1`, apiKey: key });
  const tools = samples.tools.map((fn) => ({ type: 'function', strict: true, ...fn }));

  async function plain(body) {
    const { output_text: text, usage } = await responses.create(body);
    return { text, tokens: { input: usage.input_tokens, output: usage.output_tokens } };
  }

  async function useTools(model, respond) {
    const input = [{ role: 'user', content: samples.city }];
    const first = await respond({ model, input, tools, store: false });
    const calls = first.output.filter(({ type }) => type === 'function_call');
    const results = calls.map(({ call_id, name }) => ({ type: 'function_call_output', call_id, output: toolResults[name] }));
    const last = await respond({ model, input: [...input, ...first.output, ...results], tools, store: false });
    return { text: textOf(last), calls: calls.map(({ name, arguments: text }) => ({ name, input: JSON.parse(text) })) };
  }

  /** Older versions compute `output_text` of plain responses only. */
  function textOf({ output }) {
    return output
      .flatMap(({ content }) => content ?? [])
      .map(({ text }) => text)
      .join('');
  }

  return {
    plain: (model) => plain({ model, input: samples.question }),
    async stream(model) {
      let text = '';
      let pieces = 0;
      for await (const event of await responses.create({ model, input: samples.question, stream: true })) {
        if (event.type !== 'response.output_text.delta') continue;
        pieces += 1;
        text += event.delta;
      }
      return { text, pieces };
    },
    tools: (model) => useTools(model, (body) => responses.create(body)),
    'stream-tools': (model) => useTools(model, (body) => responses.stream(body).finalResponse()),
    'parallel-tools': (model) => useTools(model, (body) => responses.stream(body).finalResponse()),
    async structured(model) {
      const format = { type: 'json_schema', name: 'weather', strict: true, schema: samples.tools[0].parameters };
      const { output_text: text } = await responses.create({ model, input: samples.city, text: { format } });
      return { value: JSON.parse(text) };
    },
    images: (model) =>
      plain({
        model,
        input: [
          {
            role: 'user',
            content: [
              { type: 'input_text', text: 'Inspect' },
              { type: 'input_image', detail: 'auto', image_url: `data:image/png;base64,${samples.image}` },
            ],
          },
        ],
      }),
    errors: (model) => plain({ model, input: samples.question }),
    retries: (model) => plain({ model, input: samples.question }),
    async reasoning(model) {
      const response = await responses.stream({ model, input: samples.question, reasoning: { summary: 'auto' } }).finalResponse();
      const { summary } = response.output.find(({ type }) => type === 'reasoning');
      return { text: textOf(response), reasoning: summary.map(({ text }) => text).join('') };
    },
  };
}
