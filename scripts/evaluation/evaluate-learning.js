/**
 * `npm run evaluate-learning` checks whether we learn the right things from the conversations in
 * `scripts/learning-set`, and nothing else. By default a scripted model answers, which only shows that all parts work
 * together. `-- --vendor` asks the user's own model. Its responses can be recorded, so that later runs can use them
 * with `-- --replay`. docs/architecture/learning.md describes how we judge the results.
 *
 * Exits with 0 if we learned everything correctly, with 1 if we didn't, and with 2 if no model was asked or a response
 * is missing from the recording.
 */
import { rmSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openEmbeddedDatabase } from '../../src/db/embedded.ts';
import { migrate } from '../../src/db/migrate.ts';
import { cacheDirectory } from '../cache.js';
import { confirmCost, estimateCost, readOptions } from './cost.js';
import { learnCase, promptVersion } from './learn.js';
import { formatReport, summarize } from './learning-report.js';
import { judge, loadLearningSet } from './learning-set.js';
import { openRecording, openReplay } from './recording.js';
import { openResults } from './results.js';
import { askScripted, checkScripted } from './scripted-model.js';
import { readVendorConfig, runWithVendor } from './vendor.js';

const usage = `npm run evaluate-learning -- [OPTIONS]

  --vendor           ask the models of gateway.yaml, or of OPENAI_API_KEY or ANTHROPIC_API_KEY; without it, a scripted model
  --model NAME       a model or tier; by default the tier memory-extract, else trivial
  --record FILE      with --vendor, keep the model's responses in this file; a run that was stopped continues there
  --replay FILE      take the responses from this file and ask no model
  --category NAME    only this category; may be repeated
  --yes              do not ask whether the estimated cost is acceptable
  --json FILE        also write the results as JSON`;

const options = readOptions(
  {
    vendor: { type: 'boolean' },
    model: { type: 'string' },
    record: { type: 'string' },
    replay: { type: 'string' },
    category: { type: 'string', multiple: true },
    yes: { type: 'boolean' },
    json: { type: 'string' },
  },
  usage,
);
/**
 * We assume these numbers when we estimate the cost: the length of a consolidation prompt without any memories, and how
 * many output tokens the two responses have together.
 */
const consolidationCharacters = 3_000;
const outputTokens = 400;

const dataDir = await mkdtemp(join(tmpdir(), 'evaluate-learning-'));
process.once('exit', () => rmSync(dataDir, { recursive: true, force: true }));

await runWithVendor(run);

/** @param {import('./vendor.js').StartVendor} startVendor */
async function run(startVendor) {
  const all = await loadLearningSet();
  const cases = all.filter(({ category }) => options.category?.includes(category) ?? true);
  if (cases.length === 0) throw new Error(`--category: must be one of ${[...new Set(all.map(({ category }) => category))].join(', ')}`);
  if (options.replay !== undefined && options.vendor) throw new Error('--replay does not call a model, so leave out --vendor');
  if (options.record !== undefined && !options.vendor) throw new Error('--record: needs --vendor');
  const replay = options.replay === undefined ? null : await openReplay(options.replay);
  const config = options.vendor ? readVendorConfig() : null;
  const model = replay ? replay.model : config ? (options.model ?? config.chooseTier(['memory-extract', 'trivial'])) : 'scripted';
  if (model === null) throw new Error('--model: is required, because neither memory-extract nor trivial has a model');
  const version = promptVersion();
  /** @type {Awaited<ReturnType<typeof openResults<Omit<import('./learning-report.js').CaseResult, 'id' | 'category' | 'must' | 'missed' | 'forbidden' | 'mistakes' | 'learned'> & { items: import('./learning-set.js').LearnedItem[] }>>>} */
  const results = await openResults(
    // A recording needs the responses of the model, which stored results don't contain. So don't reuse results while
    // recording.
    config && options.record === undefined ? join(cacheDirectory(), 'evaluation', 'learning.jsonl') : join(dataDir, 'results.jsonl'),
  );
  /** @param {import('./learning-set.js').LearningCase} each */
  const keyOf = ({ id, conversations }) => [
    version,
    config?.resolve(model) ?? model,
    id,
    conversations.map(({ scripted: _, ...said }) => said),
  ];
  const pending = cases.filter((each) => !results.has(keyOf(each)));
  if (config) {
    const turns = pending.flatMap(({ conversations }) => conversations);
    const inputCharacters = turns.reduce(
      (sum, { messages }) => sum + version.length + consolidationCharacters + JSON.stringify(messages).length,
      0,
    );
    const planned = { model, calls: 2 * turns.length, inputCharacters, outputTokens: outputTokens * turns.length };
    if (!(await confirmCost(estimateCost([planned], config.priceOf), options.yes ?? false))) return 2;
  }
  const vendor =
    config && pending.length > 0 ? await startVendor({ dataDir: join(dataDir, 'gateway'), project: 'evaluate-learning' }) : null;
  const title = config ? `${model} (${config.resolve(model).join(', ')})` : model;
  const recording = options.record === undefined ? null : await openRecording(options.record, title);
  /** @param {string} id @returns {import('./learn.js').AskModel} */
  const askFor = (id) => {
    if (replay) return replay.replayFor(id);
    const ask = vendor ? askVendor(vendor, model) : askScripted;
    return recording?.recordFor(id, ask) ?? ask;
  };
  const database = await openEmbeddedDatabase({ dataDir: join(dataDir, 'learning') });
  try {
    await migrate(database);
    const judged = [];
    for (const each of cases) {
      const { items, ...measured } = await results.getOrRun(keyOf(each), async () => {
        const [startedAt, spentBefore] = [performance.now(), (await vendor?.readSpend()) ?? 0];
        const learned = await learnCase(database, each, askFor(each.id));
        return {
          ...learned,
          cost: ((await vendor?.readSpend()) ?? 0) - spentBefore,
          durationMs: Math.round(performance.now() - startedAt),
        };
      });
      const mistakes = config || replay ? [] : checkScripted(each, { items, ...measured });
      const texts = items.map(({ text }) => text);
      judged.push({
        id: each.id,
        category: each.category,
        must: each.must.length,
        ...judge(each, items),
        ...measured,
        mistakes,
        learned: texts,
      });
    }
    console.log(formatReport(title, judged));
    if (options.json) await writeFile(options.json, `${JSON.stringify({ model, ...summarize(judged), results: judged }, null, 2)}\n`);
    if (replay && replay.leftOut() > 0)
      console.log(`\n${replay.leftOut()} consolidations were skipped, because the learned statements differ from those in the recording`);
    if (replay && replay.unrecorded().length > 0) {
      console.error(`\nmissing from the recording, or recorded with a different prompt: ${replay.unrecorded().join(', ')}`);
      return 2;
    }
    return judged.every(({ missed, forbidden, mistakes }) => missed.length + forbidden.length + mistakes.length === 0) ? 0 : 1;
  } finally {
    await database.close();
  }
}

/**
 * @param {import('./vendor.js').Vendor} asked
 * @param {string} model
 * @returns {import('./learn.js').AskModel}
 */
function askVendor(asked, model) {
  return async ({ system, text, schema }) => {
    const messages = [
      { role: 'system', content: system },
      { role: 'user', content: text },
    ];
    const answer = await asked.complete({
      model,
      messages,
      response_format: { type: 'json_schema', json_schema: { ...schema, strict: true } },
    });
    return answer.text;
  };
}
