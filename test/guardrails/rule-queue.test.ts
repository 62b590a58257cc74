/** Projects share the thread that matches content rules. */
import { Worker } from 'node:worker_threads';
import { expect, jest, test } from '@jest/globals';
import type { ContentRule } from '../../src/guardrails/content-rule.ts';
import { firstPosition } from '../../src/guardrails/match-rules.ts';
import { createRuleQueue, type RuleOutcome } from '../../src/guardrails/rule-queue.ts';
import { createRuleThread } from '../../src/guardrails/rule-thread.ts';
import { createRandom } from '../support/random.ts';

const random = createRandom(34);
/** With this text RE2 needs a new state of the automaton for every character. */
const slowText = Array.from({ length: 8_000 }, () => random.pick(['a', 'b'])).join('');
const slowRule: ContentRule = { class: 'expression', place: 'input', action: 'block', expression: '[ab]*a[ab]{300}[^ab]' };
const emailRule: ContentRule = { class: 'email', place: 'input', action: 'block' };

const passed: RuleOutcome = { matched: new Set(), stopped: null };
const work = { rules: [slowRule], texts: [slowText], signal: undefined };

test('a project with much work delays another by one turn, not by its queue', async () => {
  const queue = createRuleQueue();
  let ended = 0;
  const slow = Array.from({ length: 5 }, () =>
    queue.run({ ...work, project: 'slow' }).then((outcome) => {
      ended += 1;
      return outcome;
    }),
  );
  const outcome = await queue.run({
    project: 'other',
    rules: [emailRule],
    texts: ['x'.repeat(100_000), 'ada@example.com'],
    signal: undefined,
  });
  expect([ended, outcome]).toEqual([0, { matched: new Set([emailRule]), stopped: null }]);
  expect(await Promise.all(slow)).toEqual(slow.map(() => passed));
});

test('a project that breaks the thread again and again waits as long as others work', async () => {
  const turns: string[] = [];
  const queue = createRuleQueue({
    thread: {
      async match({ chunks: [chunk] }) {
        turns.push(chunk?.text.charAt(0) ?? '');
        if (chunk?.text === 'break') throw new Error('out of memory');
        return { matched: [], next: null, cpuMicros: 20_000 };
      },
    },
  });
  const other = queue.run({ project: 'other', rules: [emailRule], texts: ['other '.repeat(100_000)], signal: undefined });
  for (let calls = 0; calls < 5; calls += 1)
    await queue.run({ project: 'breaking', rules: [emailRule], texts: ['break'], signal: undefined });
  await other;
  expect(turns.slice(0, 10).filter((turn) => turn === 'b')).toHaveLength(1);
});

test('work of a call that has ended is dropped', async () => {
  const requests = jest.spyOn(Worker.prototype, 'postMessage');
  const queue = createRuleQueue();
  const controller = new AbortController();
  const abandoned = Array.from({ length: 20 }, () => queue.run({ ...work, project: 'one', signal: controller.signal }));
  const settled = Promise.allSettled(abandoned);
  controller.abort(new Error('the caller has left'));
  expect(await settled).toEqual(abandoned.map(() => ({ status: 'rejected', reason: new Error('the caller has left') })));
  await expect(queue.run({ ...work, project: 'one', signal: controller.signal })).rejects.toThrow('the caller has left');
  await queue.run({ project: 'two', rules: [emailRule], texts: ['hi'], signal: undefined });
  // That of the running turn, and that of the other project.
  expect(requests.mock.calls.length).toBeLessThanOrEqual(2);
  requests.mockRestore();
});

test('a call that takes too much processor time is stopped, and others go on', async () => {
  const queue = createRuleQueue({ maxCallMs: 50 });
  const [stopped, other] = await Promise.all([
    queue.run({ ...work, project: 'one' }),
    queue.run({ project: 'one', rules: [emailRule], texts: ['ada@example.com'], signal: undefined }),
  ]);
  expect(stopped).toEqual({ matched: new Set(), stopped: 'takes more than 0.05 seconds of processor time' });
  expect(other).toEqual({ matched: new Set([emailRule]), stopped: null });
});

test('what a project has waiting is bounded, in calls and characters', async () => {
  const byCalls = createRuleQueue({ maxWaitingCalls: 2 });
  const byCharacters = createRuleQueue({ maxWaitingCharacters: 10 });
  const run = (queue: typeof byCalls, project: string, text: string) =>
    queue.run({ project, rules: [emailRule], texts: [text], signal: undefined });
  const full = { code: 'budget_unavailable', message: "too many texts wait for the project's content rules" };
  // The first one is running, so two can wait.
  const calls = [1, 2, 3].map(() => run(byCalls, 'one', 'x'));
  await expect(run(byCalls, 'one', 'x')).rejects.toMatchObject(full);
  expect(await run(byCalls, 'two', 'x')).toEqual(passed);
  // A text that is longer than the bound is evaluated when nothing else of the project waits.
  const long = [run(byCharacters, 'one', 'x'.repeat(20)), run(byCharacters, 'one', 'x'.repeat(20))];
  await expect(run(byCharacters, 'one', 'x')).rejects.toMatchObject(full);
  expect(await run(byCharacters, 'two', 'x')).toEqual(passed);
  expect(await Promise.all([...calls, ...long])).toEqual([...calls, ...long].map(() => passed));
});

test('when the thread runs out of memory, only the call that it worked on fails', async () => {
  const thread = createRuleThread({ maxHeapMb: 16, maxMs: 60_000 });
  const chunks = Array.from({ length: 150_000 }, (_, index) => ({ text: `text ${index}`, isStart: true, isEnd: true }));
  const tooLarge = () => thread.match({ rules: [emailRule], chunks, from: firstPosition });
  await expect(tooLarge()).rejects.toMatchObject({ code: 'ERR_WORKER_OUT_OF_MEMORY' });

  const queue = createRuleQueue({
    thread: { match: (request) => (request.rules.includes(slowRule) ? tooLarge() : thread.match(request)) },
  });
  const [broken, other] = await Promise.all([
    queue.run({ ...work, project: 'one' }),
    queue.run({ project: 'two', rules: [emailRule], texts: ['ada@example.com'], signal: undefined }),
  ]);
  expect(broken).toEqual({ matched: new Set(), stopped: 'needs too much memory or time' });
  expect(other).toEqual({ matched: new Set([emailRule]), stopped: null });
});

test('a thread that does not respond is replaced', async () => {
  const thread = createRuleThread({ maxHeapMb: 64, maxMs: 1 });
  // It takes longer to start.
  await expect(thread.match({ rules: [], chunks: [], from: firstPosition })).rejects.toThrow('no response within 1 ms');
  await expect(thread.match({ rules: [], chunks: [], from: firstPosition })).rejects.toThrow('no response within 1 ms');
});
