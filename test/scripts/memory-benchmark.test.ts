/**
 * Tests `npm run benchmark-memory` with small versions of its data sets, and the figures that it computes. The complete
 * run takes minutes (see docs/benchmarks.md#memory).
 */
import { describe, expect, test } from '@jest/globals';
import { parseBeam, splitText } from '../../scripts/memory-benchmark/beam.js';
import { loadBeam, loadLocomo, mergeEqualTexts } from '../../scripts/memory-benchmark/dataset.js';
import { fillPlainBlock, formatEvidence, measureEvidence } from '../../scripts/memory-benchmark/evidence.js';
import { parseLocomo } from '../../scripts/memory-benchmark/locomo.js';
import { rankOf, toScores } from '../../scripts/memory-benchmark/metrics.js';
import { formatRatings, measureRatings } from '../../scripts/memory-benchmark/ratings.js';
import { runMemoryBenchmark } from '../../scripts/memory-benchmark/run.js';
import { parseXquad, splitSentences } from '../../scripts/memory-benchmark/xquad.js';
import { BootstrapError } from '../../scripts/npm.js';

test.each([
  ['an unknown option', ['--nothing'], 'nothing'],
  ['an unknown data set', ['--only', 'mem0'], '--only: must be locomo, beam or xquad'],
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
      { question: 'Who paints?', answer: 'Ada', evidence: ['D2:1'], category: 4 },
      { question: 'When did Ben run?', answer: 2023, evidence: ['D9:9; D11:2'], category: 2 },
      { question: 'Which pets?', evidence: ['D2:3', 'D2:5'], category: 1 },
      { question: 'Of a message without a memory', evidence: ['D2:2'], category: 3 },
      { question: 'Without an answer', evidence: ['D2:1'], category: 5 },
    ],
  };

  test('turns the observations in LoCoMo into memories', () => {
    const [conversation] = parseLocomo(JSON.stringify([sample]));
    const of = (session: number, speaker: string, date: string) => ({ conversation: 'conv-1', session, speaker, date });
    const may = '2023-05-08T00:05:00.000Z';
    expect(conversation?.memories).toEqual([
      { id: 'conv-1/2/Ada/1', text: 'Ada paints.', sources: ['D2:1'], ...of(2, 'Ada', may) },
      { id: 'conv-1/2/Ada/2', text: 'Ada has a cat.', sources: ['D2:3', 'D2:5'], ...of(2, 'Ada', may) },
      { id: 'conv-1/11/Ben/1', text: 'Ben runs.', sources: ['D11:2'], ...of(11, 'Ben', '2023-06-01T13:30:00.000Z') },
    ]);
    expect(conversation?.questions).toEqual([
      { text: 'Who paints?', kind: 'single-hop', sources: ['D2:1'], answer: 'Ada' },
      { text: 'When did Ben run?', kind: 'temporal', sources: ['D9:9', 'D11:2'], answer: '2023' },
      { text: 'Which pets?', kind: 'multi-hop', sources: ['D2:3', 'D2:5'], answer: '' },
    ]);
  });

  test('alternates conversations between the two halves of the data set', () => {
    expect(parseLocomo(JSON.stringify([sample, sample, sample])).map(({ half }) => half)).toEqual(['tuned', 'held-out', 'tuned']);
  });
});

describe('XQuAD', () => {
  test('turns the sentences in XQuAD into memories', () => {
    const context = '🍵 ist ein Tee. Ada trinkt ihn gern.';
    const qas = [{ question: 'Wer trinkt Tee?', answers: [{ text: 'Ada', answer_start: 16 }] }];
    const conversation = parseXquad('de', JSON.stringify({ data: [{ paragraphs: [{ context, qas }] }] }));
    expect(conversation.memories.map(({ text, sources }) => [text, sources])).toEqual([
      ['🍵 ist ein Tee.', ['1/1']],
      ['Ada trinkt ihn gern.', ['1/2']],
    ]);
    expect(conversation.questions).toEqual([{ text: 'Wer trinkt Tee?', answer: 'Ada', kind: 'question', sources: ['1/2'] }]);
  });

  test('splits long sentences at spaces', () => {
    const text = 'ภาษาไทยไม่มีจุด '.repeat(40).trim();
    const sentences = splitSentences(text, 'th');
    for (const { from, text: sentence } of sentences) expect(text.slice(from, from + sentence.length)).toBe(sentence);
    expect(sentences.map(({ text: sentence }) => sentence).join(' ')).toBe(text);
    expect(Math.max(...sentences.map(({ text: sentence }) => sentence.length))).toBeLessThan(300);
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
    knowledge_update: [{ question: 'What is it now?', answer: '250 ms', source_chat_ids: { original_info: [0], updated_info: [2] } }],
    abstention: [{ question: 'Without an answer' }, { question: 'Of no message', source_chat_ids: [99] }],
  };

  test('turns the messages in BEAM into memories and splits long ones', () => {
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
      { text: 'In which order?', kind: 'event-ordering', sources: ['1', '3'], answer: '' },
      { text: 'What is it now?', kind: 'knowledge-update', sources: ['0', '2'], answer: '250 ms' },
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

test('names the missing file in the error', async () => {
  await expect(loadLocomo('/nowhere/locomo10.json')).rejects.toThrow('/nowhere/locomo10.json: cannot be read (ENOENT)');
  await expect(loadLocomo(import.meta.filename)).rejects.toThrow(/LoCoMo: its SHA-256 is not 79fa87e9/);
  await expect(loadBeam('/nowhere')).rejects.toThrow('/nowhere/1/chat.json: cannot be read (ENOENT)');
});

describe('scores of a benchmark', () => {
  test('uses the rank of the first search result that contains a source of the answer', () => {
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

describe('evidence in the inserted memories', () => {
  const question = { text: 'When did Ada visit Oslo?', kind: 'temporal', sources: ['1', '2'], answer: 'Ada went in May 2023 with Grace' };

  test("measures how many of the answer's sources and words are in the inserted memories", () => {
    const block = { text: 'Ada and Grace were in Oslo in 2023', sources: [['1'], ['3', '1']] };
    expect(measureEvidence(block, question)).toEqual({ sources: 1 / 2, answer: 2 / 4, tokens: 34 / 4 });
    expect(measureEvidence({ text: '', sources: [] }, { ...question, answer: 'Oslo' })).toEqual({ sources: 0, answer: null, tokens: 0 });
  });

  test('fills the comparison block with all dated memories that still fit', () => {
    const memory = (text: string, source: string) => ({
      ...{ id: text, text, conversation: 'c', session: 1, date: '2023-05-08T00:05:00.000Z', speaker: 'Ada', sources: [source] },
    });
    const memories = [memory('Short\none', 'a'), memory('x'.repeat(400), 'b'), memory('Another', 'c')];
    const { text, sources } = fillPlainBlock(memories, 100);
    expect(text.split('\n').slice(2, -1)).toEqual(['- Short one (2023-05-08)', '- Another (2023-05-08)']);
    expect([sources, Buffer.byteLength(text) <= 400]).toEqual([[['a'], ['c']], true]);
  });

  test('reports the evidence for each method and token budget', () => {
    const evidence = { sources: 0.5, answer: 0.25, tokens: 400.2 };
    const of = (method: string, budget: number) => ({ part: 'LoCoMo', method, budget, kind: 'temporal', evidence });
    const report = formatEvidence([of('gateway', 500), { ...of('gateway', 500), evidence: { ...evidence, sources: 1, answer: null } }]);
    expect(report).toContain('| gateway | 0.750 / 0.250 (400) |  |  |  |');
  });
});

describe('ratings of memories in the benchmark', () => {
  /** Ranks memories by their votes, of which each key has one. */
  function createGateway() {
    const votes = new Map<string, { key: string; id: string; useful: boolean; subject: string | null }>();
    const items = ['a', 'b', 'c'].map((id) => ({ id, sources: [id] }));
    const score = (id: string): number =>
      [...votes.values()].reduce((sum, vote) => sum + (vote.id !== id || vote.subject !== null ? 0 : vote.useful ? 1 : -1), 0);
    return {
      createKeys: async (_: unknown, count: number) => Array.from({ length: count }, (_each, index) => `key ${index}`),
      search: async (_: unknown, questions: readonly unknown[]) =>
        questions.map(() => items.toSorted((one, other) => score(other.id) - score(one.id))),
      rate: async (key: string, id: string, rating: string) => {
        votes.set(`${key} ${id}`, { key, id, useful: rating === 'useful', subject: null });
      },
      moveVotes: async (subject: string) => {
        for (const [name, vote] of votes) votes.set(name, { ...vote, subject });
      },
      forgetRatings: async () => votes.clear(),
    };
  }

  test('honest ratings improve recall, and dishonest ratings make it worse', async () => {
    const question = (source: string) => ({ text: source, kind: 'temporal', sources: [source], answer: '' });
    const stored = { project: 'p', key: 'k', subject: null, sources: new Map<string, string[]>() };
    const of = (half: 'tuned' | 'held-out') => ({ id: half, half, memories: [], questions: [question('b'), question('a')] });
    const gateway = createGateway() as unknown as Parameters<typeof measureRatings>[0]['gateway'];
    const outcomes = await measureRatings({ conversations: [of('tuned'), of('held-out')], gateway, stored: [stored, stored] });
    const rows = formatRatings(outcomes)
      .split('\n')
      .slice(2)
      .map((row) => row.split(' | ').map((cell) => cell.replaceAll('|', '').trim().split(' ')[0]));
    expect(rows).toEqual([
      ['no', '0.000', '1.000'],
      ['one', '1.000', '0.000'],
      ['five', '1.000', '0.000'],
      ['one', '0.000', '1.000'],
      ['five', '0.000', '1.000'],
      ['an', '0.000', '1.000'],
      ['five', '0.000', '1.000'],
    ]);
  });
});
