import { describe, expect, test } from '@jest/globals';
import type { TextRoute } from '../../src/core/call.ts';
import type { Candidate } from '../../src/core/candidate.ts';
import { splitByWindow } from '../../src/routing/context-windows.ts';

type Windows = Pick<Candidate, 'maxInputTokens' | 'contextWindow'>;

/** Returns the models that remain and those that are left out, by their names `a`, `b`, ... in order. */
function split(windows: readonly Windows[], asked: { tokens: number; output?: number; route?: TextRoute }): [string, string] {
  const candidates = windows.map((window, at): Candidate => {
    const model = 'abcdef'[at] ?? '';
    return { id: `p/${model}`, provider: 'p', model, dialect: 'chat', price: null, maxOutputTokens: null, ...window };
  });
  const body = Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: 'a '.repeat(asked.tokens) }] }));
  const { fitting, tooSmall } = splitByWindow(candidates, asked.route ?? 'chat', { body, maxOutputTokens: asked.output ?? null });
  const names = (models: readonly Candidate[]): string => models.map(({ model }) => model).join('');
  return [names(fitting), names(tooSmall)];
}

const of = (maxInputTokens: number): Windows => ({ maxInputTokens });
const together = (contextWindow: number): Windows => ({ maxInputTokens: contextWindow, contextWindow });

describe('context windows', () => {
  test.each<[string, Windows[], { tokens: number; output?: number; route?: TextRoute }, [string, string]]>([
    ['leaves out models whose window is smaller than the prompt', [of(99), of(100), of(500)], { tokens: 100 }, ['bc', 'a']],
    ['keeps a model whose window is just large enough', [of(99), of(100)], { tokens: 99 }, ['ab', '']],
    ['keeps a model whose window is unknown', [of(10), {}, of(20)], { tokens: 100 }, ['b', 'ac']],
    ['keeps the models with the largest window if all are too small', [of(10), of(40), of(20), of(40)], { tokens: 100 }, ['bd', 'ac']],
    ['keeps the only model even if its window is too small', [of(10)], { tokens: 100 }, ['a', '']],
    ['leaves out models on the messages route too', [of(10), of(200)], { tokens: 100, route: 'messages' }, ['b', 'a']],
    [
      'keeps all models on routes where the window applies to each text',
      [of(10), of(200)],
      { tokens: 100, route: 'embeddings' },
      ['ab', ''],
    ],
    [
      "leaves out a model if the vendor counts the output and it doesn't fit",
      [together(150), of(120)],
      { tokens: 100, output: 60 },
      ['b', 'a'],
    ],
    ['keeps a model if the output fits as well', [together(160), of(120)], { tokens: 100, output: 60 }, ['ab', '']],
    ['leaves out a model if the output alone is too long', [together(150), of(120)], { tokens: 1, output: 200 }, ['b', 'a']],
  ])('%s', (_what, windows, asked, expected) => {
    expect(split(windows, asked)).toEqual(expected);
  });
});
