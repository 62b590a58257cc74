/**
 * `npm run evaluate-memory -- --vendor` tests all of memory with the user's own models. It records LoCoMo's
 * conversations as if they had happened on their dates, and a private service learns from them. Then it answers the
 * data set's questions with the help of recall, and another model compares the answers with the correct ones. Every
 * step is saved, so you can continue a run that was killed.
 *
 * Exits with 0 if all questions were judged, and with 2 if no model was asked or a step failed.
 */
import { rmSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseDocument } from 'yaml';
import { sha256 } from '../../src/core/sha256.ts';
import { openEmbeddedDatabase } from '../../src/db/embedded.ts';
import { migrate } from '../../src/db/migrate.ts';
import { cacheDirectory } from '../cache.js';
import { readLocomo } from '../memory-benchmark/dataset.js';
import { confirmCost, estimateCost, readOptions } from './cost.js';
import { parseDialogues } from './dialogues.js';
import { promptVersion } from './learn.js';
import { answerPrompt, askQuestion, awaitLearned, awaitVectors, judgePrompt, projectOf, recordDialogue } from './memory-loop.js';
import { formatMemoryReport, summarizeByKind } from './memory-report.js';
import { openResults } from './results.js';
import { readVendorConfig, runWithVendor } from './vendor.js';

const usage = `npm run evaluate-memory -- --vendor [OPTIONS]

  --vendor               required: the run calls the models of gateway.yaml, or of OPENAI_API_KEY or ANTHROPIC_API_KEY
  --locomo FILE          the published locomo10.json; without it the file is downloaded
  --data FILE            another file in the same format
  --conversations N      only the first N conversations
  --questions N          only the first N questions of each
  --answer-model NAME    a model or tier that answers; by default the tier standard
  --judge-model NAME     a model or tier that judges; by default the one that answers
  --yes                  do not ask whether the estimated cost is acceptable
  --json FILE            also write the results as JSON

Learning uses the tiers memory-extract, memory-consolidate and trivial, as in the service.`;

const options = readOptions(
  {
    vendor: { type: 'boolean' },
    locomo: { type: 'string' },
    data: { type: 'string' },
    conversations: { type: 'string' },
    questions: { type: 'string' },
    'answer-model': { type: 'string' },
    'judge-model': { type: 'string' },
    yes: { type: 'boolean' },
    json: { type: 'string' },
  },
  usage,
);
/**
 * We assume these numbers when we estimate the cost of a learning batch, which extracts statements and then
 * consolidates them with existing memories.
 */
const perBatch = { bytes: 60_000, consolidationCharacters: 40_000, outputTokens: 8_000 };
/**
 * We assume these numbers when we estimate the cost of a question: how much text recall inserts into the prompt, and
 * how long the responses are.
 */
const perQuestion = { recallCharacters: 4_500, answerTokens: 60, verdictTokens: 20 };

await runWithVendor(run);

/** @param {import('./vendor.js').StartVendor} startVendor */
async function run(startVendor) {
  if (!options.vendor) throw new Error(usage);
  const config = readVendorConfig();
  const learning = config.chooseTier(['memory-extract', 'trivial']);
  if (learning === null) throw new Error('no model is configured for learning: add one to the tier memory-extract or trivial');
  const answer = options['answer-model'] ?? config.chooseTier(['standard']);
  if (answer === null) throw new Error('--answer-model: is required, because the standard tier has no model');
  const models = { answer, judge: options['judge-model'] ?? answer };
  const text = options.data ? await readFile(options.data, 'utf8') : await readLocomo(options.locomo);
  const dialogues = parseDialogues(text)
    .slice(0, toCount('conversations', options.conversations))
    .map((each) => ({ ...each, questions: each.questions.slice(0, toCount('questions', options.questions)) }));

  // What the service learns depends on the models, the prompts and the conversations, so each combination has its own
  // folder.
  const learned = [promptVersion(), config.resolve(learning), config.resolve('memory-consolidate'), sha256(text).toString('hex')];
  const folder = join(cacheDirectory(), 'evaluation', `memory-${sha256(JSON.stringify(learned)).toString('hex').slice(0, 12)}`);
  /** @type {Awaited<ReturnType<typeof openResults<import('./memory-loop.js').Judged>>>} */
  const results = await openResults(join(folder, 'questions.jsonl'));
  /** @type {Awaited<ReturnType<typeof openResults<{ written: number, dropped: number }>>>} */
  const learnedResults = await openResults(join(folder, 'learned.jsonl'));
  const prompts = [answerPrompt, judgePrompt, config.resolve(models.answer), config.resolve(models.judge)];
  /** @param {string} id @param {import('./dialogues.js').AnsweredQuestion} question */
  const keyOf = (id, question) => [...prompts, id, question];

  const toLearn = dialogues.filter(({ id }) => !learnedResults.has([id]));
  const open = dialogues.flatMap(({ id, questions }) => questions.filter((question) => !results.has(keyOf(id, question))));
  const bytes = toLearn.map(({ sessions }) => JSON.stringify(sessions).length);
  const batches = bytes.reduce((sum, size) => sum + Math.ceil(size / perBatch.bytes), 0);
  const asked = open.reduce((sum, question) => sum + question.text.length + question.answer.length, 0);
  const planned = [
    {
      model: learning,
      calls: 2 * batches,
      inputCharacters: bytes.reduce((sum, size) => sum + size, 0) + batches * (promptVersion().length + perBatch.consolidationCharacters),
      outputTokens: batches * perBatch.outputTokens,
    },
    {
      model: models.answer,
      calls: open.length,
      inputCharacters: asked + open.length * (answerPrompt.length + perQuestion.recallCharacters),
      outputTokens: open.length * perQuestion.answerTokens,
    },
    {
      model: models.judge,
      calls: open.length,
      inputCharacters: 2 * asked + open.length * judgePrompt.length,
      outputTokens: open.length * perQuestion.verdictTokens,
    },
  ];
  console.log(`${dialogues.length} conversations (${toLearn.length} to learn), ${open.length} questions to ask; state in ${folder}`);
  if (!(await confirmCost(estimateCost(planned, config.priceOf), options.yes ?? false))) return 2;

  let spent = 0;
  if (toLearn.length + open.length > 0) {
    const dataDir = join(folder, 'gateway');
    // Record the conversations before the service starts, because only one process can open an embedded database.
    const database = await openWhenFree(dataDir);
    try {
      await migrate(database);
      for (const dialogue of dialogues) await recordDialogue(database, dialogue);
    } finally {
      await database.close();
    }
    const vendor = await startVendor({ dataDir, project: 'evaluate-memory', temporal: true, env: await writeConfig(folder) });
    for (const dialogue of dialogues) {
      const client = await vendor.connect(projectOf(dialogue));
      const spentBefore = await client.readSpend();
      await learnedResults.getOrRun([dialogue.id], () => awaitLearned(client, dialogue, (line) => console.log(line)));
      if (dialogue.questions.some((question) => !results.has(keyOf(dialogue.id, question))))
        console.log(`${dialogue.id}: questions are searched by ${(await awaitVectors(client)) ? 'terms and meaning' : 'terms only'}`);
      for (const question of dialogue.questions)
        await results.getOrRun(keyOf(dialogue.id, question), () => askQuestion(client, question, models));
      spent += (await client.readSpend()) - spentBefore;
      console.log(`${dialogue.id}: ${dialogue.questions.length} questions answered and judged`);
    }
  }
  const judged = [];
  for (const { id, questions } of dialogues)
    for (const question of questions) {
      const result = await results.getOrRun(keyOf(id, question), () => Promise.reject(new Error('a question has no recorded answer')));
      judged.push({ conversation: id, ...question, expected: question.answer, ...result });
    }
  console.log(formatMemoryReport(judged, spent));
  if (options.json)
    await writeFile(
      options.json,
      `${JSON.stringify({ models: { learning, ...models }, kinds: summarizeByKind(judged), spent, questions: judged }, null, 2)}\n`,
    );
  return judged.every(({ verdict }) => verdict !== 'unclear') ? 0 : 2;
}

/**
 * Retries for a while, because the service of a killed run takes some seconds to stop.
 * @param {string} dataDir
 */
async function openWhenFree(dataDir) {
  for (let triesLeft = 30; ; triesLeft -= 1) {
    try {
      return await openEmbeddedDatabase({ dataDir });
    } catch (error) {
      if (triesLeft === 0 || !/in use by another/.test(/** @type {Error} */ (error).message)) throw error;
      await sleep(1_000);
    }
  }
}

/**
 * Writes a copy of the user's configuration that doesn't wait for a conversation to end before learning from it.
 * @param {string} folder
 */
async function writeConfig(folder) {
  const named = process.env.GATEWAY_CONFIG?.trim() || 'gateway.yaml';
  const text = await readFile(named, 'utf8').catch((error) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
  const document = parseDocument(text);
  document.setIn(['memory', 'idle_minutes'], 0.02);
  const path = join(folder, 'gateway.yaml');
  await mkdir(folder, { recursive: true });
  // The file contains vendor keys, so remove it on every exit, including signals.
  process.once('exit', () => rmSync(path, { force: true }));
  await writeFile(path, document.toString(), { mode: 0o600 });
  // Vector search depends on the embedder, so use the one of the user's service.
  return { GATEWAY_CONFIG: path, GATEWAY_LOCAL_EMBEDDER: process.env.GATEWAY_LOCAL_EMBEDDER };
}

/** @param {string} name @param {string | undefined} value */
function toCount(name, value) {
  const count = value === undefined ? Infinity : Number(value);
  if (!(count >= 1) || (count !== Infinity && !Number.isInteger(count))) throw new Error(`--${name}: must be a whole number of at least 1`);
  return count;
}
