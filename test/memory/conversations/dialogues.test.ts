/**
 * Generates random dialogues in every dialect, with repeated calls, and splits them into arbitrary batches. Each
 * dialogue has to become a single conversation.
 */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { SettledCall } from '../../../src/core/call.ts';
import { newId } from '../../../src/core/ids.ts';
import { parseJsonOrThrow } from '../../../src/core/json/parse.ts';
import { describeAnyDatabase } from '../../db/databases.ts';
import { isExhaustive } from '../../support/exhaustive.ts';
import { createProject, listConversations, record, settledCall } from '../calls.ts';

const numRuns = isExhaustive ? 40 : 12;

type Route = 'chat' | 'messages' | 'responses';

/** What the assistant does between two user messages, i.e. a loop of tool calls, then text. */
interface Turn {
  readonly question: string;
  readonly tools: readonly (readonly string[])[];
  readonly answer: string;
}

interface Dialogue {
  readonly route: Route;
  readonly source: string;
  readonly subject: string | null;
  readonly project: number;
  readonly turns: readonly Turn[];
}

const letters = fc.string({ unit: fc.constantFrom('a', 'b', ' ', '\n', 'é', '👋', '{', '"', '\\'), minLength: 1, maxLength: 8 });
const text = letters.map((middle) => `x${middle}x`);
const turn = fc.record({
  question: text,
  tools: fc.array(fc.array(text, { minLength: 1, maxLength: 2 }), { maxLength: 2 }),
  answer: text,
});
const dialogue = fc.record({
  route: fc.constantFrom<Route>('chat', 'messages', 'responses'),
  source: fc.constantFrom('acme', 'other'),
  subject: fc.constantFrom(null, 'ann', 'bob'),
  project: fc.constantFrom(0, 1),
  turns: fc.array(turn, { minLength: 1, maxLength: 4 }),
});
/** The first messages of dialogues are different. Dialogues with a subject also have different scopes. */
const dialogues = fc
  .array(dialogue, { minLength: 1, maxLength: 5 })
  .map((list) => list.map((one, index) => ({ ...one, turns: one.turns.map((row) => ({ ...row, question: `${index}${row.question}` })) })))
  .filter((list) => {
    const scopes = list.filter(({ subject }) => subject !== null).map(({ source, subject, project }) => `${project} ${source} ${subject}`);
    return new Set(scopes).size === scopes.length;
  });

/** Returns the requests and responses of a dialogue in its dialect. */
function callsOf(
  { route, source, subject, turns }: Dialogue,
  projectId: string,
  startAt: number,
): { calls: SettledCall[]; lines: string[] } {
  const history: unknown[] = [];
  const lines: string[] = [];
  const calls: SettledCall[] = [];
  const ask = (answer: string, tools: readonly string[]): void => {
    const toolCalls = tools.map((name, index) => ({ name, arguments: JSON.stringify({ n: index, name }) }));
    const body = route === 'responses' ? { input: [...history] } : { messages: [...history] };
    // Streamed text often has white space at its ends, which clients trim.
    calls.push(
      settledCall({
        projectId,
        at: startAt + calls.length,
        route,
        source,
        subject,
        body,
        answer: { text: answer === '' ? '' : ` ${answer}\n`, toolCalls },
      }),
    );
    lines.push(answer === '' ? 'a ' : `a  ${answer}\n`);
    history.push(...repeat[route](answer, toolCalls));
  };
  for (const { question, tools, answer } of turns) {
    history.push({ role: 'user', content: question });
    lines.push(`u ${question}`);
    for (const names of tools) ask('', names);
    ask(answer, []);
  }
  return { calls, lines };
}

type ToolCalls = readonly { readonly name: string; readonly arguments: string }[];

/** Repeats a response like a client of this dialect would, with tool results. */
const repeat: Record<Route, (answer: string, toolCalls: ToolCalls) => unknown[]> = {
  chat: (answer, toolCalls) => [
    {
      role: 'assistant',
      content: answer || null,
      ...(toolCalls.length > 0
        ? { tool_calls: toolCalls.map((call, index) => ({ id: `c${index}`, type: 'function', function: call })) }
        : {}),
    },
    ...toolCalls.map((_, index) => ({ role: 'tool', tool_call_id: `c${index}`, content: 'done' })),
  ],
  messages: (answer, toolCalls) => [
    {
      role: 'assistant',
      content: [
        ...(answer === '' ? [] : [{ type: 'text', text: answer }]),
        ...toolCalls.map((call, index) => ({
          type: 'tool_use',
          id: `c${index}`,
          name: call.name,
          input: parseJsonOrThrow(call.arguments),
        })),
      ],
    },
    ...(toolCalls.length > 0
      ? [{ role: 'user', content: toolCalls.map((_, index) => ({ type: 'tool_result', tool_use_id: `c${index}`, content: 'done' })) }]
      : []),
  ],
  responses: (answer, toolCalls) => [
    ...(answer === '' ? [] : [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: answer }] }]),
    ...toolCalls.map((call, index) => ({ type: 'function_call', call_id: `c${index}`, ...call })),
    ...toolCalls.map((_, index) => ({ type: 'function_call_output', call_id: `c${index}`, output: 'done' })),
  ],
};

describeAnyDatabase('random dialogues', (database) => {
  test('assigns all calls of a dialogue to the same conversation', async () => {
    await fc.assert(
      fc.asyncProperty(dialogues, fc.infiniteStream(fc.nat()), async (list, numbers) => {
        const next = (bound: number): number => Number(numbers.next().value) % bound;
        const projects = [await createProject(database()), await createProject(database())];
        const made = list.map((one, index) => ({
          ...one,
          projectId: projects[one.project] ?? '',
          ...callsOf(one, projects[one.project] ?? '', index * 100),
        }));

        // Dialogues are interleaved. Calls that have a history are delivered twice or repeated later.
        const queue: SettledCall[] = [];
        const waiting = made.map(({ calls }) => [...calls]);
        while (waiting.some((calls) => calls.length > 0)) {
          const dialogue = waiting.filter((calls) => calls.length > 0)[next(waiting.filter((calls) => calls.length > 0).length)];
          const call = dialogue?.shift();
          if (call) queue.push(call);
          const known = queue[next(queue.length)];
          if (known && next(4) === 0) queue.push(known);
          // Repeats the request as a new call. Without a history, this would be a new conversation.
          const earlier = made[next(made.length)]?.calls.slice(1).find((sent) => queue.includes(sent));
          if (earlier && next(4) === 0)
            queue.push({ ...earlier, metadata: { ...earlier.metadata, id: newId(earlier.metadata.startedAt) } });
        }
        while (queue.length > 0) await record(database(), queue.splice(0, 1 + next(4)));

        for (const projectId of projects) {
          const seen = await listConversations(database(), projectId);
          const expected = made.filter((one) => one.projectId === projectId);
          expect(seen.map(({ source, subject, lines, calls }) => ({ source, subject, lines, calls }))).toEqual(
            expected.map(({ source, subject, lines, calls }) => ({ source, subject, lines, calls: calls.length })),
          );
        }
      }),
      { numRuns },
    );
  });

  test('accepts the calls of a conversation in any order', async () => {
    await fc.assert(
      fc.asyncProperty(dialogue, fc.infiniteStream(fc.nat()), async (one, numbers) => {
        const projectId = await createProject(database());
        const { calls, lines } = callsOf({ ...one, subject: null }, projectId, 0);
        const shuffled = calls.map((call) => ({ call, place: Number(numbers.next().value) })).toSorted((a, b) => a.place - b.place);
        // The last call contains all earlier responses, so all remaining calls are late.
        const last = calls.at(-1);
        const late = shuffled.map(({ call }) => call).filter((call) => call !== last);
        for (const call of [...(last ? [last] : []), ...late]) await record(database(), [call]);
        const seen = await listConversations(database(), projectId);
        // The text is what the client repeats. Only the last response is different, because the client hasn't repeated
        // it yet.
        const repeated = lines.map((line, index) =>
          index === lines.length - 1 ? line : line.startsWith('a  ') ? `a ${line.slice(3).trim()}` : line,
        );
        expect(seen.map((row) => [row.calls, row.lines])).toEqual([[calls.length, repeated]]);
      }),
      { numRuns },
    );
  });
});
