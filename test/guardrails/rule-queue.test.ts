/**
 * Tests the queue for the thread that matches content rules. All projects share this thread, so the queue has to divide
 * its time fairly.
 */
import { expect, test } from '@jest/globals';
import type { ContentRule } from '../../src/guardrails/content-rule.ts';
import { firstPosition } from '../../src/guardrails/match-rules.ts';
import { createRuleQueue, type RuleOutcome } from '../../src/guardrails/rule-queue.ts';
import { createRuleThread } from '../../src/guardrails/rule-thread.ts';
import { createRandom } from '../support/random.ts';
import { run } from '../support/run.ts';

const random = createRandom(34);
/** When RE2 matches `slowRule`, it adds an automaton state for every character of this text. */
const slowText = Array.from({ length: 8_000 }, () => random.pick(['a', 'b'])).join('');
const slowRule: ContentRule = { class: 'expression', place: 'input', action: 'block', expression: '[ab]*a[ab]{300}[^ab]' };
const emailRule: ContentRule = { class: 'email', place: 'input', action: 'block' };

const passed: RuleOutcome = { matched: new Set(), stopped: null };
const work = { rules: [slowRule], texts: [slowText], signal: undefined };

test('content rules of other projects are evaluated even if one project has a long queue', async () => {
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

test('a project whose rules keep crashing the thread goes last', async () => {
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

test("doesn't evaluate content rules for calls that have already ended", async () => {
  const turns: string[] = [];
  const firstTurn = Promise.withResolvers<void>();
  const queue = createRuleQueue({
    thread: {
      async match({ chunks: [chunk] }) {
        turns.push(chunk?.text ?? '');
        await firstTurn.promise;
        return { matched: [], next: null, cpuMicros: 1 };
      },
    },
  });
  const controller = new AbortController();
  const abandoned = Array.from({ length: 20 }, (_, call) =>
    queue.run({ rules: [emailRule], texts: [`call ${call}`], project: 'one', signal: controller.signal }),
  );
  const settled = Promise.allSettled(abandoned);
  controller.abort(new Error('the caller has left'));
  expect(await settled).toEqual(abandoned.map(() => ({ status: 'rejected', reason: new Error('the caller has left') })));
  await expect(queue.run({ ...work, project: 'one', signal: controller.signal })).rejects.toThrow('the caller has left');
  const other = queue.run({ project: 'two', rules: [emailRule], texts: ['hi'], signal: undefined });
  firstTurn.resolve();
  await other;
  // Only the turn that was already running is left of the first project.
  expect(turns).toEqual(['call 0', 'hi']);
});

test('stops evaluating rules only for the call that uses too much CPU time', async () => {
  const queue = createRuleQueue({ maxCallMs: 50 });
  const [stopped, other] = await Promise.all([
    queue.run({ ...work, project: 'one' }),
    queue.run({ project: 'one', rules: [emailRule], texts: ['ada@example.com'], signal: undefined }),
  ]);
  expect(stopped).toEqual({ matched: new Set(), stopped: 'uses more than 0.05 seconds of CPU time' });
  expect(other).toEqual({ matched: new Set([emailRule]), stopped: null });
});

test("limits a project's rule queue by calls and characters", async () => {
  const byCalls = createRuleQueue({ maxWaitingCalls: 2 });
  const byCharacters = createRuleQueue({ maxWaitingCharacters: 10 });
  const run = (queue: typeof byCalls, project: string, text: string) =>
    queue.run({ project, rules: [emailRule], texts: [text], signal: undefined });
  const full = { code: 'budget_unavailable', message: "too many texts are waiting for the project's content rules; try again in a moment" };
  // The first call is already running, so two more can wait.
  const calls = [1, 2, 3].map(() => run(byCalls, 'one', 'x'));
  await expect(run(byCalls, 'one', 'x')).rejects.toMatchObject(full);
  expect(await run(byCalls, 'two', 'x')).toEqual(passed);
  // A text that exceeds the limit is still evaluated if the project has nothing else waiting.
  const long = [run(byCharacters, 'one', 'x'.repeat(20)), run(byCharacters, 'one', 'x'.repeat(20))];
  await expect(run(byCharacters, 'one', 'x')).rejects.toMatchObject(full);
  expect(await run(byCharacters, 'two', 'x')).toEqual(passed);
  expect(await Promise.all([...calls, ...long])).toEqual([...calls, ...long].map(() => passed));
});

test('only the current call fails if the rule thread runs out of memory', async () => {
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
  expect(broken).toEqual({ matched: new Set(), stopped: 'uses too much memory or time', cause: expect.any(Error) });
  expect(other).toEqual({ matched: new Set([emailRule]), stopped: null });
});

test("the rule thread doesn't run out of memory with many complex expressions", async () => {
  // Runs in a separate program whose threads have a small heap. Each expression fills its automaton with this text.
  const program = `
    import { compileRules, evaluateTexts } from '${new URL('../../src/guardrails/rules.ts', import.meta.url)}';
    const blocks = (rule) => compileRules([{ place: 'input', action: 'block', ...rule }]).input;
    const outcomeOf = (project, rule, texts) =>
      evaluateTexts(blocks(rule), texts, { project }).then(({ blockedBy }) => blockedBy, (error) => error.code ?? error.message);
    const outcomes = [];
    for (let length = 300; length < 308; length += 1)
      outcomes.push(await Promise.all([
        outcomeOf('one', { class: 'expression', expression: '[ab]*a[ab]{' + length + '}[^ab]' }, ['${slowText}'.repeat(2)]),
        outcomeOf('two', { class: 'email' }, ['x'.repeat(20_000), 'ada@example.com']),
      ]));
    console.log(JSON.stringify(outcomes));`;
  const printed = await run(process.execPath, ['--max-old-space-size=64', '--eval', program]);
  expect(JSON.parse(printed)).toEqual(Array.from({ length: 8 }, () => [null, 'email']));
});

test("replaces a rule thread that doesn't respond", async () => {
  const thread = createRuleThread({ maxHeapMb: 64, maxMs: 1 });
  // Starting the thread already takes longer than 1 ms.
  await expect(thread.match({ rules: [], chunks: [], from: firstPosition })).rejects.toThrow('no response within 1 ms');
  await expect(thread.match({ rules: [], chunks: [], from: firstPosition })).rejects.toThrow('no response within 1 ms');
});
