/**
 * Tests the data set of `npm run evaluate-learning`, and how its results are judged and kept. The scripted model learns
 * from it.
 */
import { execFile } from 'node:child_process';
import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { confirmCost, estimateCost } from '../../scripts/evaluation/cost.js';
import { datedMessages, learnCase } from '../../scripts/evaluation/learn.js';
import { judge, loadLearningSet } from '../../scripts/evaluation/learning-set.js';
import { openRecording } from '../../scripts/evaluation/recording.js';
import { openResults } from '../../scripts/evaluation/results.js';
import { askScripted, checkScripted } from '../../scripts/evaluation/scripted-model.js';
import type { Database } from '../../src/db/database.ts';
import { maskCredentials } from '../../src/guardrails/credentials.ts';
import { buildExtractionPrompt, parseExtraction } from '../../src/memory/learning/extraction.ts';
import { type AnyDatabase, openAnyDatabase } from '../support/any-database.ts';
import { shortLived } from '../support/gateway-process.ts';
import { createMemoryVendor } from '../support/memory-vendor.ts';

const set = await loadLearningSet();
let folder = '';
let opened: AnyDatabase;
let database: Database;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'evaluate-learning-'));
  opened = await openAnyDatabase();
  database = opened.database;
});
afterAll(async () => {
  await opened?.close();
  await rm(folder, { recursive: true, force: true });
});

describe('the set of cases for evaluating learning', () => {
  test('contains at least 60 cases of 15 kinds that say what must or must not be learned', () => {
    expect(set.length).toBeGreaterThanOrEqual(60);
    expect(new Set(set.map(({ category }) => category)).size).toBeGreaterThanOrEqual(15);
    // Each of them says what must or must not be learned.
    expect(set.filter(({ must, must_not }) => must.length + must_not.length === 0)).toEqual([]);
  });

  test.each([
    [
      'an invalid pattern',
      '- { id: a, conversations: [{ messages: [{ user: a }, { assistant: b }], scripted: [] }], must: [{ all: ["("] }] }',
    ],
    ['an unknown key', '- { id: a, conversations: [{ messages: [{ user: a }, { assistant: b }], scripted: [] }], mus: [] }'],
    ['a duplicate id', '- &a { id: a, conversations: [{ messages: [{ user: a }, { assistant: b }], scripted: [] }] }\n- *a'],
  ])('rejects an evaluation set with %s', async (_, text) => {
    const broken = await mkdtemp(join(folder, 'set-'));
    await writeFile(join(broken, 'broken.yaml'), text);
    await expect(loadLearningSet(broken)).rejects.toThrow(/^broken/);
  });

  test('learns exactly what each case requires from its scripted model responses', async () => {
    for (const each of set) {
      const items = [];
      const refusals: string[] = [];
      for (const conversation of each.conversations) {
        const messages = datedMessages(conversation).flatMap(({ role, text, at }) =>
          role === 'tool' ? [] : [{ conversationId: each.id, role, text: maskCredentials(text), createdAt: at }],
        );
        const parsed = parseExtraction(
          await askScripted({ job: 'extract', ...buildExtractionPrompt(messages, null) }, conversation),
          messages,
        );
        items.push(...(parsed?.statements ?? []).map(({ text, kind }) => ({ text, kind, subject: conversation.subject })));
        refusals.push(...(parsed?.refusals ?? ['unusable']));
      }
      const mistakes = checkScripted(each, { items, refusals });
      expect({ id: each.id, ...judge(each, items), mistakes }).toEqual({ id: each.id, missed: [], forbidden: [], mistakes: [] });
    }
  });

  test("doesn't learn secrets or prompt injections from any case on a real database", async () => {
    const learnable = set.filter(({ category }) => ['injections', 'other-people', 'secrets'].includes(category));
    expect(learnable.length).toBeGreaterThan(10);
    for (const each of learnable) {
      const learned = await learnCase(database, each, askScripted);
      const mistakes = checkScripted(each, learned);
      expect({ id: each.id, ...judge(each, learned.items), mistakes }).toEqual({ id: each.id, missed: [], forbidden: [], mistakes: [] });
    }
  });

  test('fails a case if the model learns nothing or something forbidden', () => {
    const failed = (id: string, text: string | null, subject = 'account-1') => {
      const each = set.find((other) => other.id === id);
      const judged = each && judge(each, text === null ? [] : [{ text, kind: 'event', subject }]);
      return [judged?.missed.length, judged?.forbidden.length];
    };
    expect(failed('next-friday', null)).toEqual([1, 0]);
    expect(failed('next-friday', 'The launch is on Friday, 27 November 2026.')).toEqual([0, 0]);
    expect(failed('next-friday', 'The launch is on 28 November 2026.')).toEqual([1, 0]);
    expect(failed('drink', 'User drinks tea, never coffee')).toEqual([1, 0]);
    expect(failed('two-anns', 'Ann keeps bees')).toEqual([1, 0]);
    expect(failed('two-anns', 'Ann keeps bees', 'account-2')).toEqual([2, 1]);
    expect(failed('if-rome', 'User plans to move to Rome')).toEqual([0, 1]);
  });
});

describe('a run of the learning evaluation', () => {
  test('resumes an evaluation that was killed while it wrote a result', async () => {
    const path = join(folder, 'kept', 'results.jsonl');
    const first = await openResults<number>(path);
    expect(await first.getOrRun(['a', 1], async () => 7)).toBe(7);
    await appendFile(path, '{"key":"half');
    const second = await openResults<number>(path);
    expect([second.has(['a', 1]), second.has(['a', 2])]).toEqual([true, false]);
    await expect(second.getOrRun(['a', 2], () => Promise.reject(new Error('the vendor is down')))).rejects.toThrow('the vendor is down');
    expect(await second.getOrRun(['a', 2], async () => 8)).toBe(8);
    const third = await openResults<number>(path);
    const unexpected = () => Promise.reject(new Error('asked again'));
    expect([await third.getOrRun(['a', 1], unexpected), await third.getOrRun(['a', 2], unexpected)]).toEqual([7, 8]);
    expect((await readFile(path, 'utf8')).split('\n').filter((line) => line.startsWith('{"key":'))).toHaveLength(3);
  });

  test('replays recorded responses without calling the vendor', async () => {
    const own = await mkdtemp(join(folder, 'recording-'));
    const [config, recording, results] = ['gateway.yaml', 'recording.jsonl', 'results.json'].map((name) => join(own, name)) as [
      string,
      string,
      string,
    ];
    const evaluate = async (...options: string[]) => {
      const args = [...shortLived, 'scripts/evaluate-learning.js', '--category', 'corrections', '--json', results, ...options];
      const { promise, resolve } = Promise.withResolvers<{ status: unknown; output: string }>();
      // The gateway that the program starts gets this option as well.
      const fromTemplate = `--import ${new URL('../support/embedded-from-template.ts', import.meta.url)}`;
      const env = { ...process.env, GATEWAY_CONFIG: config, NODE_OPTIONS: fromTemplate };
      execFile(process.execPath, args, { env, timeout: 600_000 }, (error, stdout, stderr) =>
        resolve({ status: error?.code ?? 0, output: stdout + stderr }),
      );
      return promise;
    };
    const readLearned = async () => {
      const judged: { id: string; learned: string[]; refusals: string[] }[] = JSON.parse(await readFile(results, 'utf8')).results;
      return judged.map(({ id, learned, refusals }) => ({ id, learned: learned.toSorted(), refusals }));
    };
    const vendor = await createMemoryVendor();
    await writeFile(config, vendor.yaml);
    // This run was killed while it wrote the response after the first case. The scripted model stands in for the vendor
    // here, so that we can tell whose responses were used.
    const [first] = set.filter(({ category }) => category === 'corrections');
    if (first === undefined) throw new Error('there are no corrections');
    const killed = await openRecording(recording, 'trivial (one/m)');
    const { items } = await learnCase(database, first, killed.recordFor(first.id, askScripted));
    const kept = (await readFile(recording, 'utf8')).trim().split('\n').length;
    await appendFile(recording, '{"case":"');

    // The vendor turns each sentence of the user into a memory, so it also learns what was corrected.
    expect((await evaluate('--vendor', '--yes', '--record', recording)).status).toBe(1);
    const recorded = await readLearned();
    expect(recorded[0]).toMatchObject({ id: first.id, learned: items.map(({ text }) => text).toSorted() });
    expect(recorded.slice(1).flatMap(({ learned }) => learned)).not.toEqual([]);
    const entries = (await readFile(recording, 'utf8')).trim().split('\n');
    expect(vendor.requests.length).toBeGreaterThan(recorded.length);
    // One of the lines is the incomplete one.
    expect(entries).toHaveLength(kept + 1 + vendor.requests.length);

    vendor.close();
    // The other cases are still replayed if the recording lacks one.
    const [missing, others] = [recorded.at(-1), recorded.slice(0, -1)];
    await writeFile(recording, `${entries.filter((line) => !line.includes(`"case":"${missing?.id}"`)).join('\n')}\n`);
    expect(await evaluate('--replay', recording)).toEqual({
      status: 2,
      output: expect.stringMatching(new RegExp(`^missing from the recording, or recorded with a different prompt: ${missing?.id}$`, 'm')),
    });
    expect((await readLearned()).filter(({ id }) => id !== missing?.id)).toEqual(others);
  });

  test("doesn't call a paid model before somebody agrees to the estimated cost", async () => {
    const price = {
      inputNanos: 2_000_000_000n,
      outputNanos: 10_000_000_000n,
      cachedInputNanos: 0n,
      cacheWriteNanos: 0n,
      cacheWrite1hNanos: 0n,
    };
    const planned = { model: 'a', calls: 3, inputCharacters: 4_000_000, outputTokens: 100_000 };
    expect(estimateCost([planned], () => price)).toEqual({ calls: 3, inputTokens: 1_000_000, outputTokens: 100_000, cost: 3 });
    expect(estimateCost([planned, { ...planned, model: 'b' }], (model) => (model === 'a' ? price : null)).cost).toBeNull();
    expect(
      await confirmCost(
        estimateCost([{ ...planned, calls: 0 }], () => null),
        false,
      ),
    ).toBe(true);
  });
});
