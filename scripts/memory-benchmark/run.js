import { rmSync } from 'node:fs';
import { access, mkdtemp, writeFile } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { findLocalModel } from '../../src/core/local-model.ts';
import { readArguments } from '../arguments.js';
import { openPostgres } from '../bench/postgres.js';
import { fetchLocalEmbedder } from '../local-embedder.js';
import { BootstrapError } from '../npm.js';
import { createPrograms } from '../programs.js';
import { loadBeam, loadLocomo, loadXquad } from './dataset.js';
import { createEmbeddings } from './embeddings.js';
import { budgets, fillPlainBlock, formatEvidence, maxResults, measureEvidence, summarizeEvidence } from './evidence.js';
import { startGateway } from './gateway.js';
import { askMem0, installMem0, version } from './mem0.js';
import { rankOf } from './metrics.js';
import { formatRatings, measureRatings } from './ratings.js';
import { formatReport, toJson } from './report.js';
import { createVectorTable } from './vector-table.js';

const progressMs = 20_000;
/** We look at this many results of each search. */
const depth = 10;

/** @param {string[]} args the command-line arguments */
export async function runMemoryBenchmark(args) {
  const options = parseOptions(args);
  // Check the options first, so that a typo doesn't show up in the middle of the run.
  if (options.config !== undefined) await access(options.config).catch(rejectOption('--config'));
  // Check that the file can be written before the run, which takes an hour.
  if (options.json !== undefined) await writeFile(options.json, '', { flag: 'a' }).catch(rejectOption('--json'));
  const every = Number(options.every);
  if (!(Number.isInteger(every) && every > 0)) throw new BootstrapError('--every: must be a whole number of at least 1');
  const isWanted = (/** @type {string} */ name) => options.only === undefined || options.only === name;
  const datasets = [
    ...(isWanted('locomo') ? [{ name: 'LoCoMo', conversations: await loadLocomo(options.locomo) }] : []),
    ...(isWanted('beam') ? [{ name: 'BEAM 100K', conversations: await loadBeam(options.beam) }] : []),
    // Each language of XQuAD is reported separately.
    ...(options.only === 'xquad'
      ? (await loadXquad(options.xquad)).map((conversation) => ({ name: `XQuAD ${conversation.id}`, conversations: [conversation] }))
      : []),
  ].map(({ name, conversations }) => ({ name, conversations: conversations.map((each) => takeEvery(each, every)) }));
  if (options.model.startsWith('local/')) await fetchLocalEmbedder(findLocalModel(options.model) ?? undefined);
  const home = options['without-mem0'] || options.ratings ? null : await installMem0();
  const folder = await mkdtemp(join(tmpdir(), 'gateway-memory-benchmark-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const programs = createPrograms();
  const postgres = await openPostgres();
  /** @type {import('./report.js').Measured[]} */
  const measured = [];
  /** @type {import('./evidence.js').MeasuredEvidence[]} */
  const evidence = [];
  /** @type {pg.Client[]} */
  const clients = [];
  try {
    console.log(`${cpus()[0]?.model}, ${cpus().length} processors, Node ${process.versions.node}, ${postgres.version}; ${options.model}`);
    const [own, plain] = [await connect(postgres), await connect(postgres)];
    clients.push(own.client, plain.client);
    const gateway = await startGateway({ programs, client: own.client, databaseUrl: own.url, folder, ...options });
    const embeddings = await createEmbeddings({ model: options.model, request: gateway.embed });
    const table = await createVectorTable(plain.client);
    for (const { name, conversations } of datasets) {
      const ofDataset = await measureDataset({
        ...{ name, conversations, gateway, embeddings, table, home, folder },
        ...{ model: options.model, isOneProject: options['one-project'], ratesResults: options.ratings },
      });
      console.log(formatReport(ofDataset.outcomes));
      console.log(formatEvidence(ofDataset.evidence));
      measured.push(...ofDataset.outcomes);
      evidence.push(...ofDataset.evidence);
    }
  } finally {
    await programs.stopAll();
    for (const client of clients) await client.end();
    await postgres.close();
  }
  if (options.json !== undefined)
    await writeFile(options.json, `${JSON.stringify({ ranks: toJson(measured), evidence: summarizeEvidence(evidence) }, null, 2)}\n`);
}

/**
 * @param {object} options
 * @param {string} options.name
 * @param {import('./dataset.js').Conversation[]} options.conversations
 * @param {import('./gateway.js').Gateway} options.gateway
 * @param {import('./embeddings.js').Embeddings} options.embeddings
 * @param {Awaited<ReturnType<typeof createVectorTable>>} options.table
 * @param {string | null} options.home the folder of mem0's Python environment
 * @param {string} options.folder
 * @param {string} options.model
 * @param {boolean} options.isOneProject
 * @param {boolean} options.ratesResults only measures the effect of ratings
 */
async function measureDataset({ name, conversations, gateway, embeddings, table, home, folder, model, isOneProject, ratesResults }) {
  const slug = name.toLowerCase().replaceAll(' ', '-');
  const stored = await timed(`${name}: stored`, async () => {
    const projects = [];
    for (const { id, memories } of conversations)
      projects.push(await (isOneProject ? gateway.store(slug, memories, id) : gateway.store(`${slug}-${id}`, memories, null)));
    return projects;
  });
  const refused = stored.reduce((sum, project) => sum + project.refused, 0);
  if (refused > 0) console.log(`${name}: ${refused} memories refused, because they resemble prompt injections`);
  await timed(`${name}: embedded by the gateway`, () => gateway.untilEmbedded(createProgress(`${name}: without a vector`)));
  embeddings.add(await gateway.storedVectors());

  if (ratesResults) {
    console.log(formatRatings(await timed(`${name}: ratings`, () => measureRatings({ conversations, gateway, stored }))));
    return { outcomes: [], evidence: [] };
  }

  /** @type {Map<string, string[][][][]>} results by method, with one entry per conversation */
  const results = new Map();
  for (const [method, byText] of /** @type {const} */ ([
    ['gateway', false],
    ['gateway, by text only', true],
  ])) {
    const answers = await timed(`${name}: ${method}`, async () => {
      const all = [];
      for (const [index, { questions }] of conversations.entries()) {
        const project = stored[index];
        if (project) all.push(await gateway.ask(project, questions, { byText }));
      }
      return all;
    });
    results.set(
      method,
      answers.map((answer) => answer.results),
    );
    const times = answers.flatMap(({ milliseconds }) => milliseconds).sort((a, b) => a - b);
    console.log(`${name}: ${method}: half of the searches took less than ${times[Math.floor(times.length / 2)]?.toFixed(1)} ms`);
  }
  console.log(`${name}: gateway and embedder use ${(gateway.memoryBytes() / 1e6).toFixed(0)} MB`);

  const byVector = await timed(`${name}: plain table`, async () => {
    const all = [];
    for (const conversation of conversations) all.push(await table.ask(conversation, embeddings, maxResults));
    return all;
  });
  const toSources = (/** @type {import('./dataset.js').Memory[][]} */ ofQuestions) =>
    ofQuestions.map((memories) => memories.slice(0, depth).map(({ sources }) => sources));
  results.set('plain table of vectors', byVector.map(toSources));
  /** @type {Record<string, import('./dataset.js').Memory[][][]>} */
  const plainResults = { 'plain table of vectors': byVector };
  if (home !== null) {
    const ofMem0 = await timed(`${name}: mem0`, () =>
      askMem0({ home, folder: join(folder, `mem0-${slug}`), model, conversations, embeddings }),
    );
    const title = `mem0 ${version}${ofMem0.hasKeywords ? '' : ', vectors only'}`;
    results.set(
      title,
      ofMem0.results.map(({ plain }) => toSources(plain)),
    );
    if (embeddings.prefix !== '')
      results.set(
        `${title}, with the query prefix`,
        ofMem0.results.map(({ prefixed }) => toSources(prefixed)),
      );
    plainResults[title] = ofMem0.results.map(({ prefixed }) => prefixed);
  }
  // In XQuAD, the evidence for an answer is always a single sentence. So measuring blocks wouldn't tell us more than
  // the hits do.
  const evidence = name.startsWith('XQuAD')
    ? []
    : await timed(`${name}: recall`, () => measureBlocks({ name, conversations, gateway, stored, plainResults }));
  return {
    outcomes: [...results].flatMap(([method, ofConversations]) => toMeasured(name, method, conversations, ofConversations)),
    evidence,
  };
}

/**
 * Measures the blocks that recall inserts, for each budget. For comparison, we fill blocks of the same size with the
 * first results of each of the other methods.
 * @param {object} options
 * @param {string} options.name
 * @param {import('./dataset.js').Conversation[]} options.conversations
 * @param {import('./gateway.js').Gateway} options.gateway
 * @param {import('./gateway.js').Stored[]} options.stored
 * @param {Record<string, import('./dataset.js').Memory[][][]>} options.plainResults the results of each question of each
 * conversation, by method
 */
async function measureBlocks({ name, conversations, gateway, stored, plainResults }) {
  /** @type {import('./evidence.js').MeasuredEvidence[]} */
  const measured = [];
  for (const [index, { half, questions }] of conversations.entries()) {
    const project = stored[index];
    if (!project) continue;
    for (const budget of budgets) {
      const blocks = {
        gateway: await gateway.recall(project, questions, budget),
        'gateway without a budget': budget === budgets[0] ? await gateway.recall(project, questions, null) : [],
      };
      const plainBlocks = Object.entries(plainResults).map(
        ([method, results]) => /** @type {const} */ ([method, (results[index] ?? []).map((memories) => fillPlainBlock(memories, budget))]),
      );
      for (const [method, ofQuestions] of [...Object.entries(blocks), ...plainBlocks])
        for (const [number, block] of ofQuestions.entries()) {
          const question = questions[number];
          if (!question) continue;
          const part = toPart(name, half);
          measured.push({ part, method, budget, evidence: measureEvidence(block, question) });
        }
    }
  }
  return measured;
}

/** @param {import('./dataset.js').Conversation} conversation @param {number} every @returns {import('./dataset.js').Conversation} */
function takeEvery(conversation, every) {
  return { ...conversation, questions: conversation.questions.filter((_, index) => index % every === 0) };
}

/** @param {string} name @param {string | null} half */
function toPart(name, half) {
  return half === null ? name : `${name}, ${half} half`;
}

/**
 * @param {string} name the name of the data set
 * @param {string} method
 * @param {import('./dataset.js').Conversation[]} conversations
 * @param {string[][][][]} results
 * @returns {import('./report.js').Measured[]}
 */
function toMeasured(name, method, conversations, results) {
  const outcomes = conversations.flatMap(({ half, questions }, index) =>
    questions.map(({ kind, sources }, number) => ({
      part: toPart(name, half),
      kind,
      rank: rankOf(results[index]?.[number] ?? [], sources),
    })),
  );
  return [...Map.groupBy(outcomes, ({ part }) => part)].map(([part, group]) => ({ part, method, outcomes: group }));
}

/** @param {string} option @returns {(error: Error) => never} */
function rejectOption(option) {
  return (error) => {
    throw new BootstrapError(`${option}: ${error.message}`);
  };
}

/** @param {string[]} args */
function parseOptions(args) {
  const { values } = readArguments({
    args,
    options: {
      locomo: { type: 'string' },
      beam: { type: 'string' },
      xquad: { type: 'string' },
      only: { type: 'string' },
      every: { type: 'string', default: '1' },
      model: { type: 'string', default: 'local/bge-small-en-v1.5' },
      config: { type: 'string' },
      'one-project': { type: 'boolean', default: false },
      ratings: { type: 'boolean', default: false },
      'without-mem0': { type: 'boolean', default: false },
      json: { type: 'string' },
    },
  });
  if (values.only !== undefined && !['locomo', 'beam', 'xquad'].includes(values.only))
    throw new BootstrapError('--only: must be locomo, beam or xquad');
  return values;
}

/** @param {Awaited<ReturnType<typeof openPostgres>>} postgres */
async function connect(postgres) {
  const { url } = await postgres.createDatabase();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return { url, client };
}

/**
 * @template Result
 * @param {string} title
 * @param {() => Promise<Result>} work
 */
async function timed(title, work) {
  const from = performance.now();
  const result = await work();
  console.log(`${title} in ${((performance.now() - from) / 1_000).toFixed(0)} s`);
  return result;
}

/** Returns a function that prints the progress, but not more often than every 20 seconds. @param {string} title */
function createProgress(title) {
  let printedAt = performance.now();
  return (/** @type {number} */ number) => {
    if (performance.now() - printedAt < progressMs) return;
    printedAt = performance.now();
    console.log(`${title}: ${number}`);
  };
}
