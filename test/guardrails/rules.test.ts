import { Worker } from 'node:worker_threads';
import { beforeAll, describe, expect, jest, test } from '@jest/globals';
import { type ContentRule, parseRulesInput, parseStoredRules } from '../../src/guardrails/content-rule.ts';
import { findInjection } from '../../src/guardrails/injection.ts';
import { compileRules, evaluateTexts as evaluate, type PlaceRules, type RuleVerdict } from '../../src/guardrails/rules.ts';

function inputRules(...rules: Omit<ContentRule, 'place'>[]): PlaceRules {
  const { input } = compileRules(rules.map((rule) => ({ ...rule, place: 'input' })));
  if (!input) throw new Error('no rules of input');
  return input;
}

const evaluateTexts = (rules: PlaceRules, texts: readonly string[]): Promise<RuleVerdict> => evaluate(rules, texts, { project: 'one' });

test('reports the first blocking rule and each observed class once', async () => {
  const rules = inputRules(
    { class: 'email', action: 'observe' },
    { class: 'expression', action: 'block', expression: 'ACME-\\d{4}' },
    { class: 'iban', action: 'block' },
  );
  expect(await evaluateTexts(rules, ['a@example.com', 'b@example.com'])).toMatchObject({
    blockedBy: null,
    observed: ['email'],
    unfinished: null,
  });
  expect(await evaluateTexts(rules, ['a@example.com', 'see ACME-1234'])).toMatchObject({
    blockedBy: 'expression',
    observed: ['email'],
    matched: [{ class: 'email' }, { class: 'expression' }],
    unfinished: null,
  });
  expect(await evaluateTexts(rules, [])).toMatchObject({ blockedBy: null, observed: [], unfinished: null });
});

test.each([
  ['card_number', '４１１１ １１１１ １１１１ １１１１'],
  ['card_number', '4111\u00a01111\u202f1111\u20111111'],
  ['card_number', '4111\u200b1111\u2060111111\u00ad11'],
  ['email', 'ada＠example．com'],
  ['email', 'ad\u200ba@exam\u200bple.com'],
  ['iban', 'ＤＥ８９ 3704 0044 0532 0130 00'],
  ['expression', 'Ｐｒｏｊｅｃｔ\u3000Nightjar'],
] as const)('finds %s in lookalike characters: %s', async (ruleClass, text) => {
  const rules = inputRules({
    class: ruleClass,
    action: 'block',
    ...(ruleClass === 'expression' && { expression: '(?i)project nightjar' }),
  });
  expect(await evaluateTexts(rules, [`see ${text} there`])).toMatchObject({ blockedBy: ruleClass });
  expect(await evaluateTexts(rules, ['ünrelated – text 👍 42'])).toMatchObject({ blockedBy: null });
});

test('compiles content rules to null if there are none for the input or output', () => {
  expect(compileRules([])).toEqual({ input: null, output: null });
  const { input, output } = compileRules([{ class: 'email', place: 'output', action: 'observe' }]);
  expect([input, output?.blocks]).toEqual([null, false]);
});

test('content rules find matches that span two chunks of a long text', async () => {
  const rules = inputRules({ class: 'card_number', action: 'block' }, { class: 'expression', action: 'block', expression: 'needle' });
  const around = 'terms and terms '.repeat(20_000);
  for (let at = 261_000; at < 262_400; at += 50) {
    expect(await evaluateTexts(rules, [`${around.slice(0, at)}needle${around}`])).toMatchObject({ blockedBy: 'expression' });
    expect(await evaluateTexts(rules, [`${around.slice(0, at)} 4111 1111 1111 1111 ${around}`])).toMatchObject({
      blockedBy: 'card_number',
    });
  }
  expect(await evaluateTexts(rules, [around])).toMatchObject({ blockedBy: null, observed: [], unfinished: null });
});

test('content rules find a long match wherever the text is split', async () => {
  const token = `eyJ${'hbGciOiJI'.repeat(4)}.${'c3ViIjoiMTIz'.repeat(250)}.${'dGhlIGVuZA'.repeat(4)}`;
  const around = 'terms and terms '.repeat(4_000);
  for (let at = 29_000; at < 34_000; at += 500) {
    const texts = [`${around.slice(0, at)} "${token}" ${around}`];
    expect([at, await evaluateTexts(inputRules({ class: 'credential', action: 'block' }), texts)]).toMatchObject([
      at,
      { blockedBy: 'credential' },
    ]);
  }
  const rules = inputRules({ class: 'expression', action: 'block', expression: 'begin[^;]{950}finish' });
  const apart = `begin${'.'.repeat(950)}finish`;
  for (let at = 0; at < 5_000; at += 250)
    expect(await evaluateTexts(rules, [`${around.slice(0, at)}${apart}${around}`])).toMatchObject({ blockedBy: 'expression' });
});

test('compiles slow regular expressions outside the event loop', async () => {
  const requests = jest.spyOn(Worker.prototype, 'postMessage');
  const blocks = (expression: string) => inputRules({ class: 'expression', action: 'block', expression });
  expect(await evaluateTexts(blocks('ACME-\\d{4}'), ['see ACME-1234'])).toMatchObject({ blockedBy: 'expression' });
  expect(requests).not.toHaveBeenCalled();
  expect(await evaluateTexts(blocks('\\p{L}{850}z|hi'), ['hi'])).toMatchObject({ blockedBy: 'expression' });
  expect(requests).toHaveBeenCalled();
  requests.mockRestore();
});

test('evaluates text with many combining marks in linear time', async () => {
  const marks = '\u0315\u0300\uff9e'.repeat(100_000);
  const rules = inputRules({ class: 'phone', action: 'block' }, { class: 'expression', action: 'block', expression: 'needle' });
  expect(await evaluateTexts(rules, [`e${marks}`])).toMatchObject({ blockedBy: null, unfinished: null });
  expect(await evaluateTexts(rules, [`${marks} nee\u200bdle`])).toMatchObject({ blockedBy: 'expression' });
  expect(findInjection(marks)).toBe(null);
});

test('evaluates regular expressions in linear time even if other engines take exponential time', async () => {
  const rules = inputRules(
    ...['(a+)+$', '(a|aa)+c', '(x+x+)+y', '(?:a?){100}a{100}c', '(.*)(.*)(.*)(.*)z'].map((expression) => ({
      class: 'expression' as const,
      action: 'block' as const,
      expression,
    })),
  );
  expect(await evaluateTexts(rules, [`${'a'.repeat(100_000)}b`, 'x'.repeat(100_000)])).toMatchObject({
    blockedBy: null,
    observed: [],
    unfinished: null,
  });
});

test.each([
  [
    'a long text',
    'terms and terms '.repeat(1_000_000),
    [{ class: 'credential' }, { class: 'expression', expression: '(?i)secret\\s+plan' }],
  ],
  [
    'an expression with large repetitions',
    Array.from({ length: 2_000 }, (_, index) => `${index % 7 === 0 ? 'confidential' : 'internal'} note ${index}`).join(' '),
    [{ class: 'expression', expression: '(?i)(?:confidential|internal).{0,400}(?:launch|merger)' }],
  ],
] as const)("doesn't block the event loop while a thread evaluates %s", async (_name, text, rules) => {
  let turns = 0;
  const count = (): void => {
    turns += 1;
    next = setImmediate(count);
  };
  let next = setImmediate(count);
  const placed = inputRules(...rules.map((rule) => ({ ...rule, action: 'block' as const })));
  expect(await evaluateTexts(placed, [text, 'and the end'])).toMatchObject({ blockedBy: null, observed: [], unfinished: null });
  clearImmediate(next);
  expect(turns).toBeGreaterThan(1_000);
});

test('sends many short texts to the rule thread in a few messages', async () => {
  const requests = jest.spyOn(Worker.prototype, 'postMessage');
  const rules = inputRules({ class: 'email', action: 'observe' }, { class: 'iban', action: 'block' });
  const texts = Array.from({ length: 20_000 }, (_, index) => `the description of parameter ${index}`);
  expect(await evaluateTexts(rules, [...texts, 'a@example.com'])).toMatchObject({ blockedBy: null, observed: ['email'], unfinished: null });
  expect(requests.mock.calls.length).toBeLessThan(50);
  requests.mockRestore();
});

const rule = { class: 'email', place: 'input', action: 'block' };
test.each<[string, unknown, RegExp[]]>([
  ['no body', undefined, [/is required/]],
  ['not an array', { rules: 'all' }, [/rules: must be a list/]],
  ['an unknown member', { rules: [], more: 1 }, [/more/]],
  [
    'several mistakes',
    {
      rules: [
        { ...rule, class: 'ssn' },
        { ...rule, place: 'both', action: 'drop' },
      ],
    },
    [/rules\.0\.class/, /rules\.1\.place/, /rules\.1\.action/],
  ],
  ['a missing expression', { rules: [{ ...rule, class: 'expression' }] }, [/rules\.0\.expression: is required/]],
  ['an expression for another class', { rules: [{ ...rule, expression: 'a' }] }, [/rules\.0\.expression: is only allowed if class/]],
  [
    'an invalid expression',
    { rules: [{ ...rule, class: 'expression', expression: '(' }] },
    [/rules\.0\.expression: is not a valid RE2 expression.*missing closing/],
  ],
  [
    'lookaround, which is not linear',
    { rules: [{ ...rule, class: 'expression', expression: 'a(?=b)' }] },
    [/is not a valid RE2 expression/],
  ],
  ['an expression that matches everything', { rules: [{ ...rule, class: 'expression', expression: 'a*' }] }, [/matches the empty string/]],
  [
    'an expression that is too large when expanded',
    { rules: [{ ...rule, class: 'expression', expression: '(?:[a-z]\\d){990}(?:b?){990}x' }] },
    [/is too complex: it compiles to \d+ instructions.* at most 1000/],
  ],
  ['an expression that is too long', { rules: [{ ...rule, class: 'expression', expression: 'a'.repeat(501) }] }, [/rules\.0\.expression/]],
  ['too many rules', { rules: Array.from({ length: 51 }, () => rule) }, [/rules: .*50/]],
])('rejects invalid rules and says where the mistake is: %s', (_name, input, messages) => {
  for (const message of messages)
    expect(() => parseRulesInput(input)).toThrow(expect.objectContaining({ code: 'bad_request', message: expect.stringMatching(message) }));
});

test("still enforces a stored expression that exceeds today's complexity limit", async () => {
  const [rule] = parseStoredRules([{ class: 'expression', place: 'input', action: 'block', expression: 'plan.{0,990}merger.{0,400}' }]);
  if (!rule) throw new Error('no rule');
  expect(() => parseRulesInput({ rules: [rule] })).toThrow(/is too complex/);
  expect(await evaluateTexts(inputRules(rule), ['the plan of a merger'])).toMatchObject({ blockedBy: 'expression' });
});

test.each([
  ['^the plan', false],
  ['the plan$', false],
  ['\\Athe plan', false],
  ['the plan\\z', false],
  ['[$^]x|the plan$', false],
  ['^the p[^]a]an$', false],
  ['\\^the|\\Q$^\\E|[$^]end', true],
  ['x+ end$', true],
  ['^start', true],
  ['(?m)^the line$', true],
  ['(?m)^plan', false],
])('matches anchors only at the ends of the whole text: %s', async (expression, isMatch) => {
  const rules = inputRules(
    { class: 'expression', action: 'block', expression },
    { class: 'expression', action: 'block', expression: 'x{900}nothing' },
  );
  const text = `start ${'of the plan '.repeat(8_000)}\nthe line\n${'of the plan '.repeat(3_000)}[$end x end`;
  expect((await evaluateTexts(rules, [text])).blockedBy).toBe(isMatch ? 'expression' : null);
});

test.each([
  ['control characters', 'ada\u0000@exam\u0007ple.com'],
  ['lone surrogates', 'ada\ud800@example.com'],
])('finds a match despite %s', async (_what, text) => {
  expect(await evaluateTexts(inputRules({ class: 'email', action: 'block' }), [text])).toMatchObject({ blockedBy: 'email' });
});

describe('texts that content rules have already evaluated', () => {
  const long = (text: string): string => `${'the plan of the week. '.repeat(2_000)}${text}`;
  const aborted = { project: 'history', signal: AbortSignal.abort(new Error('evaluated in the thread')) };
  const history = [long('one'), long('two')];

  beforeAll(async () => {
    await evaluate(inputRules({ class: 'email', action: 'block' }), history, { project: 'history' });
  });

  test("doesn't evaluate texts from earlier calls of the same conversation again", async () => {
    const rules = inputRules({ class: 'email', action: 'block' });
    expect(await evaluate(rules, history, aborted)).toMatchObject({ blockedBy: null, observed: [], unfinished: null });
    expect(await evaluate(rules, [...history, 'ask ada@example.com'], aborted)).toMatchObject({ blockedBy: 'email' });
  });

  test.each([
    ['other rules', inputRules({ class: 'email', action: 'observe' }), 'history'],
    ['another project', inputRules({ class: 'email', action: 'block' }), 'other'],
  ])('evaluates known texts again for %s', async (_what, rules, project) => {
    await expect(evaluate(rules, history, { ...aborted, project })).rejects.toThrow('evaluated in the thread');
  });

  test('reports a matching rule in every call that repeats the same text', async () => {
    const rules = inputRules({ class: 'email', action: 'observe' });
    const texts = [long('ask ada@example.com'), 'ask ada@example.com'];
    for (let call = 0; call < 3; call += 1) expect(await evaluateTexts(rules, texts)).toMatchObject({ observed: ['email'] });
  });

  test("doesn't confuse texts that differ only in malformed Unicode", async () => {
    const rules = inputRules({ class: 'email', action: 'block' });
    const text = (hidden: string): string => `${'plan '.repeat(20)}ada${hidden}@example.com`;
    expect(await evaluateTexts(rules, [text('\ufffd ')])).toMatchObject({ blockedBy: null });
    expect(await evaluateTexts(rules, [text('\ufffd')])).toMatchObject({ blockedBy: null });
    expect(await evaluateTexts(rules, [text('\ud800')])).toMatchObject({ blockedBy: 'email' });
  });
});
