/**
 * Tests small versions of the data sets of `npm run benchmark-memory`, and its figures. The run itself takes minutes
 * (see docs/benchmarks.md#memory).
 */
import { describe, expect, test } from '@jest/globals';
import { parseBeam, splitText } from '../../scripts/memory-benchmark/beam.js';
import { loadBeam, loadLocomo, mergeEqualTexts } from '../../scripts/memory-benchmark/dataset.js';
import { parseLocomo } from '../../scripts/memory-benchmark/locomo.js';
import { rankOf, toScores } from '../../scripts/memory-benchmark/metrics.js';
import { runMemoryBenchmark } from '../../scripts/memory-benchmark/run.js';
import { BootstrapError } from '../../scripts/npm.js';

test.each([
  ['an unknown option', ['--nothing'], 'nothing'],
  ['an unknown data set', ['--only', 'mem0'], '--only: must be locomo or beam'],
  ["a configuration that doesn't exist", ['--config', '/nowhere/gateway.yaml'], '--config: ENOENT'],
  ["a file that can't be written", ['--json', '/nowhere/results.json'], '--json: ENOENT'],
  ["data that doesn't exist", ['--locomo', '/nowhere/locomo10.json'], '/nowhere/locomo10.json: cannot be read (ENOENT)'],
])('reports %s before it installs or starts anything', async (_title, args, message) => {
  const failed = runMemoryBenchmark(args);
  await expect(failed).rejects.toThrow(BootstrapError);
  await expect(failed).rejects.toThrow(message);
});

describe('LoCoMo', () => {
  const sample = {
    sample_id: 'conv-1',
    conversation: { session_2_date_time: '12:05 am on 8 May, 2023', session_11_date_time: '1:30 pm on 1 June, 2023' },
    observation: {
      session_2_observation: {
        Ada: [
          ['Ada paints.', 'D2:1'],
          ['Ada has a cat.', ['D2:3', 'D2:5']],
        ],
      },
      session_11_observation: { Ben: [['Ben runs.', 'D11:2']] },
    },
    qa: [
      { question: 'Who paints?', evidence: ['D2:1'], category: 4 },
      { question: 'When did Ben run?', evidence: ['D9:9; D11:2'], category: 2 },
      { question: 'Which pets?', evidence: ['D2:3', 'D2:5'], category: 1 },
      { question: 'Of a message without a memory', evidence: ['D2:2'], category: 3 },
      { question: 'Without an answer', evidence: ['D2:1'], category: 5 },
    ],
  };

  test('turns observations into memories', () => {
    const [conversation] = parseLocomo(JSON.stringify([sample]));
    const of = (session: number, speaker: string, date: string) => ({ conversation: 'conv-1', session, speaker, date });
    const may = '2023-05-08T00:05:00.000Z';
    expect(conversation?.memories).toEqual([
      { id: 'conv-1/2/Ada/1', text: 'Ada paints.', sources: ['D2:1'], ...of(2, 'Ada', may) },
      { id: 'conv-1/2/Ada/2', text: 'Ada has a cat.', sources: ['D2:3', 'D2:5'], ...of(2, 'Ada', may) },
      { id: 'conv-1/11/Ben/1', text: 'Ben runs.', sources: ['D11:2'], ...of(11, 'Ben', '2023-06-01T13:30:00.000Z') },
    ]);
    expect(conversation?.questions).toEqual([
      { text: 'Who paints?', kind: 'single-hop', sources: ['D2:1'] },
      { text: 'When did Ben run?', kind: 'temporal', sources: ['D9:9', 'D11:2'] },
      { text: 'Which pets?', kind: 'multi-hop', sources: ['D2:3', 'D2:5'] },
    ]);
  });

  test('alternates between the halves of the data set', () => {
    expect(parseLocomo(JSON.stringify([sample, sample, sample])).map(({ half }) => half)).toEqual(['tuned', 'held-out', 'tuned']);
  });
});

describe('BEAM', () => {
  const message = (id: number, content: string, more: object = {}) => ({ id, role: id % 2 === 0 ? 'user' : 'assistant', content, ...more });
  const chat = [
    { turns: [[message(0, 'Hello', { time_anchor: 'March-15-2024' }), message(1, `${'a'.repeat(3_000)} ${'b'.repeat(3_000)}`)]] },
    { turns: [[message(2, 'Hello')], [message(3, 'Good day', { time_anchor: 'July-02-2024' })]] },
  ];
  const questions = {
    event_ordering: [{ question: 'In which order?', source_chat_ids: [1, 3] }],
    knowledge_update: [{ question: 'What is it now?', source_chat_ids: { original_info: [0], updated_info: [2] } }],
    abstention: [{ question: 'Without an answer' }, { question: 'Of no message', source_chat_ids: [99] }],
  };

  test('turns messages into memories and splits long ones', () => {
    const conversation = parseBeam('7', JSON.stringify(chat), JSON.stringify(questions));
    expect(
      conversation.memories.map(({ id, text, session, date, sources }) => [id, text.length, session, date.slice(0, 10), sources]),
    ).toEqual([
      ['7/0/1', 5, 1, '2024-03-15', ['0']],
      ['7/1/1', 3_000, 1, '2024-03-15', ['1']],
      ['7/1/2', 3_000, 1, '2024-03-15', ['1']],
      ['7/2/1', 5, 2, '2024-03-15', ['2']],
      ['7/3/1', 8, 2, '2024-07-02', ['3']],
    ]);
    expect(conversation.questions).toEqual([
      { text: 'In which order?', kind: 'event-ordering', sources: ['1', '3'] },
      { text: 'What is it now?', kind: 'knowledge-update', sources: ['0', '2'] },
    ]);
    expect(mergeEqualTexts(conversation).memories.map(({ text, sources }) => [text.slice(0, 8), sources])).toEqual([
      ['Hello', ['0', '2']],
      ['aaaaaaaa', ['1']],
      ['bbbbbbbb', ['1']],
      ['Good day', ['3']],
    ]);
  });

  test('never splits a surrogate pair', () => {
    expect(splitText('one two\nthree four', 12)).toEqual(['one two', 'three four']);
    expect(splitText(`x${'😀'.repeat(5)}`, 4)).toEqual(['x😀', '😀😀', '😀😀']);
  });
});

test('names the file in the error if it is missing', async () => {
  await expect(loadLocomo('/nowhere/locomo10.json')).rejects.toThrow('/nowhere/locomo10.json: cannot be read (ENOENT)');
  await expect(loadLocomo(import.meta.filename)).rejects.toThrow(/LoCoMo: its SHA-256 is not 79fa87e9/);
  await expect(loadBeam('/nowhere')).rejects.toThrow('/nowhere/1/chat.json: cannot be read (ENOENT)');
});

describe('scores', () => {
  test('ranks by the first result with any of the sources', () => {
    const results = [['a'], ['b', 'c'], ['c'], ['d']];
    expect(rankOf(results, ['c', 'd'])).toBe(2);
    expect(rankOf(results, ['a'])).toBe(1);
    expect(rankOf(results, ['e'])).toBeNull();
    expect(rankOf([], ['a'])).toBeNull();
  });

  test('computes hits at 1, 5 and 10 and the mean reciprocal rank', () => {
    const outcomes = [
      { kind: 'temporal', rank: 1 },
      { kind: 'temporal', rank: 5 },
      { kind: 'single-hop', rank: 6 },
      { kind: 'single-hop', rank: null },
    ];
    expect(toScores(outcomes)).toEqual([
      { kind: 'all', questions: 4, hits: [0.25, 0.5, 0.75], mrr: (1 + 1 / 5 + 1 / 6) / 4 },
      { kind: 'single-hop', questions: 2, hits: [0, 0, 0.5], mrr: 1 / 12 },
      { kind: 'temporal', questions: 2, hits: [0.5, 1, 1], mrr: 0.6 },
    ]);
  });
});
