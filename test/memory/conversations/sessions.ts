/** Generates random agent sessions that have everything a prompt can contain. */
import type { PromptRoute } from '../../../src/core/call.ts';

export type Random = (below: number) => number;

export function createRandom(seed: number): Random {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const words = [
  'plain',
  'ü',
  '  ',
  '\n',
  'sk-ant-api03-Zx81bQw72LmN04vTr95KpYs3',
  'https://a.example',
  '{"a":1}',
  '\u0000',
  '\ud800',
  'data:image/png;base64,AAAA',
];

const pick = <Item>(random: Random, items: readonly Item[]): Item => items[random(items.length)] as Item;
const text = (random: Random): string =>
  Array.from({ length: random(6) }, () => pick(random, words))
    .join(' ')
    .repeat(1 + 40 * random(2));
const maybe = <Value>(random: Random, value: Value): Value | undefined => (random(3) > 0 ? value : undefined);

function block(random: Random): unknown {
  return pick<() => unknown>(random, [
    () => text(random),
    () => ({ type: 'text', text: text(random), cache_control: maybe(random, { type: 'ephemeral' }) }),
    () => ({ type: 'input_text', text: text(random) }),
    () => ({ type: 'tool_use', id: 'toolu_1', name: pick(random, ['read', '', 'write']), input: { path: text(random) } }),
    () => ({ type: 'tool_result', tool_use_id: 'toolu_1', content: content(random) }),
    () => ({ type: 'thinking', thinking: text(random), signature: 'AAAA' }),
    () => ({ type: 'redacted_thinking', data: 'QUJD' }),
    () => ({ type: 'image', source: { type: 'base64', media_type: pick(random, ['image/png', 'image/png\u0000']), data: 'QUJDRA==' } }),
    () => ({ type: 'document', title: text(random), source: { type: 'text', data: text(random) } }),
    () => pick(random, [null, 7, [], {}, ['nested'], true]),
  ])();
}

function content(random: Random): unknown {
  if (random(2) === 0) return text(random);
  return random(12) === 0 ? pick(random, [null, 7, {}]) : Array.from({ length: random(4) }, () => block(random));
}

function element(random: Random, route: PromptRoute): unknown {
  if (random(15) === 0) return pick(random, [null, 'text', 5, [], {}]);
  const message = (roles: readonly string[]) => ({ role: pick(random, roles), content: content(random) });
  const toolCall = {
    id: 'call_1',
    type: 'function',
    function: { name: 'read', arguments: pick(random, ['{"a": 1}', '{"a":1}', 'not JSON']) },
  };
  if (route === 'chat') {
    const more = { tool_calls: maybe(random, [toolCall, { type: 'custom', custom: { name: 'x', input: text(random) } }]) };
    return {
      ...message(['user', 'assistant', 'system', 'developer', 'tool', 'odd']),
      ...(random(3) === 0 ? more : {}),
      reasoning: maybe(random, text(random)),
    };
  }
  if (route === 'messages') return message(['user', 'assistant', 'user', 'system', 'odd']);
  return pick<() => unknown>(random, [
    () => message(['user', 'assistant', 'system', 'developer']),
    () => ({ type: 'message', ...message(['user', 'assistant']) }),
    () => ({ type: 'function_call', name: 'read', arguments: '{"a": 1}', call_id: 'call_1', role: maybe(random, 'system') }),
    () => ({ type: 'function_call_output', call_id: 'call_1', output: content(random) }),
    () => ({ type: 'reasoning', summary: [{ text: text(random) }], encrypted_content: maybe(random, 'QUJD') }),
    () => ({ type: 'web_search_call', id: 'ws_1' }),
  ])();
}

function tool(random: Random): unknown {
  const name = pick(random, ['read', 'write', 'search']);
  return pick(random, [
    { type: 'function', function: { name, description: text(random) } },
    { name, input_schema: { type: 'object' } },
    { type: 'shell', environment: { network_policy: { domain_secrets: [{ name: 'a', value: 'very-secret-token' }] } } },
    { type: 'namespace', name: 'n', tools: [{ type: 'mcp', headers: { a: 'very-secret-token' } }] },
    {
      type: 'mcp',
      server_url: 'https://a.example/?key=very-secret-token',
      server_label: 'x',
      authorization: 'Bearer very-secret-token',
      headers: { 'x-key': 'very-secret-token' },
    },
    null,
  ]);
}

/** A session in which each body repeats the previous one. It then adds something or changes something. */
export function bodiesOf(random: Random, route: PromptRoute): object[] {
  const list = route === 'responses' ? 'input' : 'messages';
  const body: Record<string, unknown> = {
    model: 'a/b',
    tools: random(4) === 0 ? 'odd' : Array.from({ length: random(3) }, () => tool(random)),
  };
  if (route !== 'chat') body[route === 'messages' ? 'system' : 'instructions'] = content(random);
  let elements: unknown[] = [];
  return Array.from({ length: 6 }, () => {
    const change = random(6);
    if (change === 0) elements = elements.slice(random(3));
    else if (change === 1) elements = elements.slice(0, -1);
    elements = [...elements, ...Array.from({ length: 1 + random(4) }, () => element(random, route))];
    return { ...body, [list]: random(20) === 0 ? text(random) : elements };
  });
}

/** Returns the JSON of a body that is long enough to be compared with earlier ones. */
export function longJson(body: object): string {
  const long = { role: 'user', content: 'long '.repeat(2_000) };
  return JSON.stringify(body, (key, value: unknown) =>
    (key === 'messages' || key === 'input') && Array.isArray(value) && value.length > 0 ? [long, ...value] : value,
  );
}
