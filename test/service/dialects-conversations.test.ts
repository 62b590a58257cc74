/**
 * Tests that calls are matched to the same conversation across callers and vendors of both dialects, as JSON and
 * streamed, with tools.
 */
import { describe, expect, it } from '@jest/globals';
import type { TestGateway } from '../support/gateway.ts';
import { eventually, jsonOf, shareGateway } from '../support/gateway.ts';
import type { Dialect } from './dialects-gateway.ts';
import {
  anthropicOf,
  chatTools,
  dialects,
  messagesTools,
  openaiOf,
  paths,
  providersYaml,
  toolInputs,
  vendors,
} from './dialects-gateway.ts';

interface Turn {
  readonly callId: string;
  readonly conversation: string | null;
}

interface Stored {
  readonly turns: number;
  readonly messages: readonly { readonly role: string; readonly content: unknown }[];
}

/** Returns the conversation of the project's latest call. */
async function latestTurn({ database, project }: TestGateway, but: readonly Turn[]): Promise<Turn> {
  return eventually(async () => {
    const [row] = await database.query<{ callId: string; conversation: string | null }>(
      `select texts.call_id as "callId", texts.conversation_id as conversation
         from call_texts texts
         join projects on projects.id = texts.project_id
        where projects.slug = $1::text and texts.call_id <> all ($2::uuid[])`,
      [project, but.map(({ callId }) => callId)],
    );
    if (!row) throw new Error('the call is not stored yet');
    return row;
  });
}

const lent = shareGateway({ database: 'any', yaml: providersYaml });

describe('a conversation', () => {
  it.each(dialects)("records a %s caller's turns with vendors of both dialects as one conversation", async (caller) => {
    const gateway = await lent().withProject(`in-turn-${caller}`);
    const turns: Turn[] = [];
    const history: { role: 'user' | 'assistant'; content: string }[] = [];
    const orders: readonly (readonly [Dialect, boolean])[] = [
      ['chat', false],
      ['messages', false],
      ['chat', true],
      ['messages', true],
    ];
    for (const [at, [vendor, stream]] of orders.entries()) {
      history.push({ role: 'user', content: `Question ${at}: Über 東京?` });
      const body = { model: `${vendors[vendor]}/echo`, max_tokens: 100, stream, messages: history };
      const text = await (await gateway.call(paths[caller], body)).text();
      history.push({ role: 'assistant', content: textOf(text, stream) });
      turns.push(await latestTurn(gateway, turns));
    }
    expect(history.at(-1)?.content).toBe('You said: Question 3: Über 東京?');
    const [first] = turns;
    expect(first?.conversation).not.toBeNull();
    expect(turns.map(({ conversation }) => conversation)).toEqual(turns.map(() => first?.conversation));
    const episode = await jsonOf<Stored>(gateway.call(`/v1/memory/episodes/${first?.conversation}`));
    expect(episode).toMatchObject({ turns: 8, messages: history });
  });

  it.each([
    ['tools-parallel', false],
    ['tools-interleaved', true],
  ] as const)('records tool calls with different vendors as one conversation (%s, stream: %s)', async (model, stream) => {
    const gateway = await lent().withProject(model);
    const turns: Turn[] = [];
    for (const vendor of dialects) turns.push(...(await callTools(gateway, vendor, { model, stream }, turns)));
    // The two calls of the chat caller are one conversation, and those of the messages caller are another.
    const [a, b, c, d] = turns.map(({ conversation }) => conversation);
    expect([a, c, new Set([a, c]).size]).toEqual([b, d, 2]);
    expect(a).not.toBeNull();
    const episode = await jsonOf<Stored>(gateway.call(`/v1/memory/episodes/${a}`));
    expect(episode.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'assistant']);
    for (const { name } of toolInputs('')) expect(JSON.stringify(episode.messages[1])).toContain(name);
  });

  it('recognizes a JSON response that a messages vendor has returned as a tool call', async () => {
    for (const stream of [false, true]) {
      const gateway = await lent().withProject(`json-${stream}`);
      const { completions } = openaiOf(gateway).chat;
      const format = { type: 'json_schema' as const, json_schema: { name: 'place', schema: chatTools[0]?.function.parameters ?? {} } };
      const asked = { role: 'user' as const, content: 'Oslo' };
      const body = { model: 'three/echo', messages: [asked], response_format: format };
      const answer = stream ? await completions.stream(body).finalChatCompletion() : await completions.create(body);
      const content = answer.choices[0]?.message.content ?? '';
      expect(JSON.parse(content)).toEqual({ city: 'Oslo', days: 1 });
      const first = await latestTurn(gateway, []);
      await completions.create({ model: 'one/echo', messages: [asked, { role: 'assistant', content }, { role: 'user', content: 'And?' }] });
      expect((await latestTurn(gateway, [first])).conversation).toBe(first.conversation);
    }
  });
});

/**
 * Sends a request with tools to a vendor of the other dialect, and the results to one of the caller's own dialect. The
 * first caller uses chat.
 */
async function callTools(
  gateway: TestGateway,
  vendor: Dialect,
  way: { model: string; stream: boolean },
  before: readonly Turn[],
): Promise<Turn[]> {
  const model = `${vendors[vendor === 'chat' ? 'messages' : 'chat']}/${way.model}`;
  const asked = { role: 'user' as const, content: `Oslo for ${vendor}` };
  const finish = { model: `${vendors[vendor]}/echo`, max_tokens: 100 };
  if (vendor === 'chat') {
    const { completions } = openaiOf(gateway).chat;
    const body = { model, messages: [asked], tools: chatTools };
    const completion = way.stream ? await completions.stream(body).finalChatCompletion() : await completions.create(body);
    const first = await latestTurn(gateway, before);
    const calls = completion.choices[0]?.message.tool_calls ?? [];
    const results = calls.map(({ id }) => ({ role: 'tool' as const, tool_call_id: id, content: 'done' }));
    const called = { role: 'assistant' as const, content: null, tool_calls: calls };
    await completions.create({ ...finish, tools: chatTools, messages: [asked, called, ...results] });
    return [first, await latestTurn(gateway, [...before, first])];
  }
  const { messages } = anthropicOf(gateway);
  const body = { model, max_tokens: 100, messages: [asked], tools: messagesTools };
  const { content } = way.stream ? await messages.stream(body).finalMessage() : await messages.create(body);
  const first = await latestTurn(gateway, before);
  const uses = content.flatMap((block) => (block.type === 'tool_use' ? [block] : []));
  const results = uses.map(({ id }) => ({ type: 'tool_result' as const, tool_use_id: id, content: 'done' }));
  const called = { role: 'assistant' as const, content };
  await messages.create({ ...finish, tools: messagesTools, messages: [asked, called, { role: 'user', content: results }] });
  return [first, await latestTurn(gateway, [...before, first])];
}

interface AnswerText {
  readonly choices?: readonly { readonly message?: { readonly content: string }; readonly delta?: { readonly content?: string } }[];
  readonly content?: readonly { readonly text: string }[];
  readonly delta?: { readonly text?: string };
}

/** The text of a response of either dialect. */
function textOf(body: string, stream: boolean): string {
  const parts = stream ? [...body.matchAll(/^data: (\{.*\})$/gm)].map(([, json = '']) => json) : [body];
  return parts
    .map((json) => JSON.parse(json) as AnswerText)
    .map(
      ({ choices, content, delta }) =>
        choices?.[0]?.message?.content ?? choices?.[0]?.delta?.content ?? content?.[0]?.text ?? delta?.text ?? '',
    )
    .join('');
}
