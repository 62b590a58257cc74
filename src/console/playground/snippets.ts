import { chatMembers } from '../../pipeline/internal/playground-prompt.ts';
import { shellQuote } from '../frame/values.ts';
import { isDataUrl, newTurn, type PlaygroundInput, toPrompt } from './input.ts';

const keyVariable = 'GATEWAY_KEY';
const keyFromEnvironment = 'process.env.GATEWAY_KEY';

/** `origin` is the gateway's address. Throws `bad_request` if the tools or the schema are invalid. */
export function snippetsOf(input: PlaygroundInput, origin: string) {
  const prompt = toPrompt(shorten(input));
  // A call needs at least one message, so an empty form gets a placeholder.
  const turns = prompt.turns.length > 0 ? prompt.turns : [newTurn('user')];
  const request: Request = { origin, body: { model: input.model, ...chatMembers({ ...prompt, turns }) }, headers: headersOf(input) };
  return [
    { title: 'curl', text: curlSnippet(request) },
    { title: 'TypeScript', text: typescriptSnippet(request) },
    { title: 'Python', text: pythonSnippet(request) },
  ];
}

interface Request {
  readonly origin: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
}

function headersOf({ recalls, subject }: PlaygroundInput): Record<string, string> {
  return { ...(recalls && { 'x-gateway-memory': 'recall' }), ...(subject !== '' && { 'x-gateway-memory-subject': subject }) };
}

/** Replaces the base64 of images with a placeholder, because it can be several megabytes long. */
function shorten(input: PlaygroundInput): PlaygroundInput {
  const cut = (images: readonly string[]) => images.map((url) => (isDataUrl(url) ? `${url.slice(0, url.indexOf(',') + 1)}<BASE64>` : url));
  return { ...input, images: cut(input.images), turns: input.turns.map((turn) => ({ ...turn, images: cut(turn.images) })) };
}

function curlSnippet({ origin, body, headers }: Request): string {
  const lines = Object.entries(headers).map(([name, value]) => `  -H ${shellQuote(`${name}: ${value}`)} \\\n`);
  return `curl ${shellQuote(`${origin}/v1/chat/completions`)} \\
  -H "Authorization: Bearer $${keyVariable}" \\
  -H 'Content-Type: application/json' \\
${lines.join('')}  -d ${shellQuote(JSON.stringify(body, null, 2))}
`;
}

function typescriptSnippet({ origin, body, headers }: Request): string {
  return `import OpenAI from 'openai';

const client = new OpenAI({
  baseURL: ${JSON.stringify(`${origin}/v1`)},
  apiKey: ${keyFromEnvironment},${isEmpty(headers) ? '' : `\n  defaultHeaders: ${indent(JSON.stringify(headers, null, 2), 2)},`}
});

const stream = await client.chat.completions.create(${JSON.stringify({ ...body, stream: true }, null, 2)});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta?.content ?? '');
}
`;
}

function pythonSnippet({ origin, body, headers }: Request): string {
  const members = Object.entries(body).map(([name, value]) => `    ${name}=${indent(toPython(value), 4)},`);
  return `import os
from openai import OpenAI

client = OpenAI(
    base_url=${JSON.stringify(`${origin}/v1`)},
    api_key=os.environ["${keyVariable}"],${isEmpty(headers) ? '' : `\n    default_headers=${indent(toPython(headers), 4)},`}
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

/** Formats a value as Python. JSON is almost the same, except for true, false and null. */
function toPython(value: unknown): string {
  return JSON.stringify(value, null, 4).replaceAll(/"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g, (token) => pythonWords[token] ?? token);
}

const pythonWords: Readonly<Record<string, string>> = { true: 'True', false: 'False', null: 'None' };

function isEmpty(record: object): boolean {
  return Object.keys(record).length === 0;
}

function indent(text: string, by: number): string {
  return text.replaceAll('\n', `\n${' '.repeat(by)}`);
}
