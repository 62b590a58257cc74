/** Turns the playground's call into code that people can copy. The key is a placeholder. */
import { chatMembers } from '../../pipeline/internal/playground.ts';
import type { PlaygroundInput } from './input.ts';

const keyVariable = 'GATEWAY_KEY';
const keyFromEnvironment = 'process.env.GATEWAY_KEY';

/** `origin` is the scheme and host of the gateway. */
export function curlSnippet(input: PlaygroundInput, origin: string): string {
  const body = JSON.stringify(requestBody(input), null, 2);
  return `curl ${shellQuote(`${origin}/v1/chat/completions`)} \\
  -H "Authorization: Bearer $${keyVariable}" \\
  -H 'Content-Type: application/json' \\
  -d ${shellQuote(body)}
`;
}

export function typescriptSnippet(input: PlaygroundInput, origin: string): string {
  return `import OpenAI from 'openai';

const client = new OpenAI({
  baseURL: ${JSON.stringify(`${origin}/v1`)},
  apiKey: ${keyFromEnvironment},
});

const stream = await client.chat.completions.create(${indent(JSON.stringify({ ...requestBody(input), stream: true }, null, 2))});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta?.content ?? '');
}
`;
}

export function pythonSnippet(input: PlaygroundInput, origin: string): string {
  // A JSON string is also a valid Python string. All other values are lists, dictionaries and numbers.
  const members = Object.entries(requestBody(input)).map(([name, value]) => `    ${name}=${indent(JSON.stringify(value, null, 4), 4)},`);
  return `import os
from openai import OpenAI

client = OpenAI(
    base_url=${JSON.stringify(`${origin}/v1`)},
    api_key=os.environ["${keyVariable}"],
)

stream = client.chat.completions.create(
${members.join('\n')}
    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
`;
}

function requestBody(input: PlaygroundInput) {
  return { model: input.model, ...chatMembers(input) };
}

function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function indent(text: string, by = 0): string {
  return text.replaceAll('\n', `\n${' '.repeat(by)}`);
}
