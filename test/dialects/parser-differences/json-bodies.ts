/** Creates JSON bodies that contain a secret. Parsers disagree on how to read them. */
import type { TextRoute } from '../../../src/core/call.ts';
import type { Random } from '../../support/random.ts';

export interface JsonBody {
  readonly route: TextRoute;
  readonly bytes: Buffer;
  /** Describes the body if a test fails. */
  readonly how: string;
}

/** The planted secrets. They match rules of the classes `email` and `card_number`. */
export const secretText = 'ada@example.com';
export const secretNumber = '4111111111111111';

type Writer = (random: Random) => string;

const string = (text: string): string => JSON.stringify(text);

/** Returns the text as a JSON string in which some characters are escaped. */
const escaped = (random: Random, text: string): string =>
  `"${[...text]
    .map((character) =>
      random.chance(0.15) ? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}` : JSON.stringify(character).slice(1, -1),
    )
    .join('')}"`;

const secretString: Writer = (random) =>
  random.pick<Writer>([
    () => string(secretText),
    () => string(`write to ${secretText} today`),
    (source) => escaped(source, secretText),
    () => `"ada\\u0000@example.com"`,
    () => `"ada\\ud800@example.com"`,
    () => `"ada\\u200b@exam\\ufeffple.com"`,
    () => `"a\\u0064a\\u0040example.com"`,
    () => string('data:image/png;base64,AAAA ').replace('AAAA ', `AAAA ${secretText}`),
    () => string(`data:text/plain,${secretText}`),
    () => `"ada\\x40example.com ${secretText}"`,
    () => `'${secretText}'`,
  ])(random);

const secretValue: Writer = (random) =>
  random.chance(0.75)
    ? secretString(random)
    : random.pick([
        secretNumber,
        `${secretNumber}.0`,
        `${secretNumber}00000000e-8`,
        `[${string(secretText)}]`,
        `{"x":${string(secretText)}}`,
      ]);

const keyNames = ['id', 'status', 'type', 'role', 'name', 'content', 'text', 'object', 'signature', 'data', 'logprobs', 'model'] as const;

/** Fields of a message in which the secret can be hidden. */
const members: readonly Writer[] = [
  (random) => `"content":${secretValue(random)}`,
  (random) => `"content":[{"type":"text","text":${secretValue(random)}}]`,
  (random) => `"${random.pick(keyNames)}":${secretValue(random)}`,
  (random) => `"content":[{"type":"text","text":"hi","${random.pick(keyNames)}":${secretValue(random)}}]`,
  (random) => `"content":[{"type":"image_url","image_url":{"url":${secretString(random)}}}]`,
  (random) =>
    `"content":[{"type":"image","source":{"type":"base64","Type":"text","media_type":"image/png","data":${secretString(random)}}}]`,
  (random) => `"content":[{"type":"file","file":{"file_data":${secretString(random)}}}]`,
  (random) => `"content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":${secretValue(random)}}}]`,
  (random) => `"content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{${secretString(random)}:1}}]`,
  (random) => `"tool_calls":[{"id":${secretString(random)},"type":"function","function":{"name":"f","arguments":"{}"}}]`,
  (random) => `"content":"hi","content":${secretValue(random)}`,
  (random) => `"content":${secretValue(random)},"content":"hi"`,
  (random) => `"content":${secretValue(random)},"\\u0063ontent":"hi"`,
  (random) => `"content":[{"type":"text","text":${secretValue(random)},"text":"hi"}]`,
  (random) => `"content":"hi","Content":${secretValue(random)}`,
  (random) => `"content":"hi","x":{"y":[{"y":${secretValue(random)}},{"y":1,"y":2}]}`,
];

const topLevel: readonly Writer[] = [
  (random) => `"tools":[{"type":"function","function":{"name":"f","description":${secretValue(random)}}}]`,
  (random) => `"tools":[],"tools":[{"type":"function","function":{"name":"f","description":${secretValue(random)}}}]`,
  (random) => `"tools":[{"name":"f","input_schema":{"properties":{${secretString(random)}:{"type":"string"}}}}],"tools":[]`,
  (random) => `"tools":[{"name":"f","input_schema":{"properties":{"id":{"type":${secretString(random)}}}}}]`,
  (random) => `"metadata":{"id":${secretValue(random)}}`,
  (random) => `"metadata":{${secretString(random)}:"x"}`,
  (random) => `"user":${secretString(random)}`,
  (random) => `"logprobs":{"x":${secretValue(random)}}`,
  (random) => `"vendor":{"type":${secretValue(random)},"status":"done"}`,
  (random) => `"input":"hi","input":${secretString(random)}`,
  (random) => `"previous_response_id":${secretString(random)}`,
];

const numbers = ['16', '1000', '1e3', '100000', '1.5e5', '100000.0', '0100', '0x100', '1e400', '"9000"'] as const;
const limits: readonly Writer[] = [
  (random) => `"max_tokens":${random.pick(numbers)}`,
  (random) => `"max_completion_tokens":${random.pick(numbers)}`,
  (random) => `"max_tokens":16,"max_tokens":${random.pick(numbers)}`,
  (random) => `"max_tokens":${random.pick(numbers)},"max_completion_tokens":16`,
  (random) => `"max_output_tokens":${random.pick(numbers)}`,
  (random) => `"max_output_tokens":${random.pick(numbers)},"max_output_tokens":16`,
  (random) => `"max_output_tokens":16,"max_output\\u005ftokens":${random.pick(numbers)}`,
  (random) => `"n":${random.pick(['1', '2', '3', '1e1'])}`,
];

const pickOf = <Item>(random: Random, items: readonly Item[]): Item => {
  const item = items[random.below(items.length)];
  if (item === undefined) throw new Error('nothing to pick from');
  return item;
};

const routes: readonly TextRoute[] = ['chat', 'messages', 'responses', 'embeddings', 'moderations', 'rerank'];

/** Changes to the whole body. They make some parsers read a different value. */
const mutations: readonly ((random: Random, json: string) => Buffer | string)[] = [
  (_random, json) => `\ufeff${json}`,
  (_random, json) => Buffer.from(`\ufeff${json}`, 'utf16le'),
  (_random, json) => Buffer.from(json, 'utf16le'),
  (_random, json) => json.replace('{', `{/* "x":${string(secretText)}, */`),
  (_random, json) => json.replace('{', `{// ${secretText}\n`),
  (_random, json) => json.replace(/\}$/, ',}'),
  (_random, json) => json.replace(/\}$/, ',"x":NaN}'),
  (_random, json) => json.replace(/\}$/, `,x:${string(secretText)}}`),
  (_random, json) => `${json}{"messages":[${string(secretText)}]}`,
  (_random, json) => `${json}\u0000`,
  (_random, json) => ` \t\n${json}\r\n`,
  (_random, json) => `\u000b\u00a0${json}`,
  (_random, json) => Buffer.from(json.replace('ada@', 'ada\u00c1\u0080'), 'latin1'),
  (_random, json) => Buffer.from(json.replace('ada@', 'ada\u00ff@'), 'latin1'),
  (_random, json) => json.replace('"model"', '"mod\\u0065l"'),
  (_random, json) => json.replace(/"hi"/, '"h\ni"'),
  (_random, json) => json.replace('"model"', '"Model":"x","model"'),
];

export function writeJsonBody(random: Random, isPlanted: boolean): JsonBody {
  const route = pickOf(random, routes);
  const parts: string[] = ['"model":"one/echo"'];
  const message = isPlanted && random.chance(0.6) ? pickOf(random, members)(random) : '"content":"hi"';
  const list = `[{"role":"user",${message}}]`;
  if (route === 'chat' || route === 'messages') parts.push(`"messages":${list}`);
  else if (route === 'rerank') parts.push(`"query":"hi","documents":[{"text":"hi",${message.replaceAll('"content"', '"title"')}}]`);
  else parts.push(`"input":${list}`);
  if (isPlanted && (message === '"content":"hi"' || random.chance(0.2))) parts.push(pickOf(random, topLevel)(random));
  const hasMax = random.chance(0.3);
  if (hasMax) parts.push(pickOf(random, limits)(random));
  if (route === 'messages' && !parts.some((part) => part.includes('"max_tokens"'))) parts.push('"max_tokens":50');
  if (random.chance(0.5)) parts.reverse();
  const json = `{${parts.join(random.pick([',', ', ', '\n,\t']))}}`;
  const mutate = isPlanted && random.chance(0.3) ? pickOf(random, mutations) : null;
  const text = mutate?.(random, json) ?? json;
  const bytes = typeof text === 'string' ? Buffer.from(text) : text;
  return { route, bytes, how: `${route}: ${bytes.toString('latin1')}` };
}
