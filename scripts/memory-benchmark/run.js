/** Runs the benchmark with one gateway, all data sets and all methods. */
import { rmSync } from 'node:fs';
import { access, mkdtemp, writeFile } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { readArguments } from '../arguments.js';
import { openPostgres } from '../bench/postgres.js';
import { fetchLocalEmbedder } from '../local-embedder.js';
import { BootstrapError } from '../npm.js';
import { createPrograms } from '../programs.js';
import { loadBeam, loadLocomo } from './dataset.js';
import { createEmbeddings } from './embeddings.js';
import { startGateway } from './gateway.js';
import { askMem0, installMem0, version } from './mem0.js';
import { rankOf } from './metrics.js';
import { formatReport, toJson } from './report.js';
import { createVectorTable } from './vector-table.js';

const progressMs = 20_000;

/** @param {string[]} args the command-line arguments */
export async function runMemoryBenchmark(args) {
  const options = parseOptions(args);
  // Check the files first, because they may be missing.
  if (options.config !== undefined) await access(options.config).catch(rejectOption('--config'));
  // Appending an empty string checks that we can write to the file. Otherwise we would only find out after an hour.
  if (options.json !== undefined) await writeFile(options.json, '', { flag: 'a' }).catch(rejectOption('--json'));
  const datasets = [
    ...(options.only === 'beam' ? [] : [{ name: 'LoCoMo', conversations: await loadLocomo(options.locomo) }]),
    ...(options.only === 'locomo' ? [] : [{ name: 'BEAM 100K', conversations: await loadBeam(options.beam) }]),
  ];
  if (options.model.startsWith('local/')) await fetchLocalEmbedder();
  const home = options['without-mem0'] ? null : await installMem0();
  const folder = await mkdtemp(join(tmpdir(), 'gateway-memory-benchmark-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const programs = createPrograms();
  const postgres = await openPostgres();
  /** @type {import('./report.js').Measured[]} */
  const measured = [];
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
      const ofDataset = await measureDataset({ name, conversations, gateway, embeddings, table, home, folder, model: options.model });
      console.log(formatReport(ofDataset));
      measured.push(...ofDataset);
    }
  } finally {
    await programs.stopAll();
    for (const client of clients) await client.end();
    await postgres.close();
  }
  if (options.json !== undefined) await writeFile(options.json, `${JSON.stringify(toJson(measured), null, 2)}\n`);
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
 */
async function measureDataset({ name, conversations, gateway, embeddings, table, home, folder, model }) {
  const slug = name.toLowerCase().replaceAll(' ', '-');
  const stored = await timed(`${name}: stored`, async () => {
    const projects = [];
    for (const { id, memories } of conversations) projects.push(await gateway.store(`${slug}-${id}`, memories));
    return projects;
  });
  const refused = stored.reduce((sum, project) => sum + project.refused, 0);
  if (refused > 0) console.log(`${name}: ${refused} memories refused, because they resemble prompt injections`);
  await timed(`${name}: embedded by the gateway`, () => gateway.untilEmbedded(createProgress(`${name}: without a vector`)));
  embeddings.add(await gateway.storedVectors());

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

  results.set(
    'plain table of vectors',
    await timed(`${name}: plain table`, async () => {
      const all = [];
      for (const conversation of conversations) all.push(await table.ask(conversation, embeddings));
      return all;
    }),
  );
  if (home !== null) {
    const ofMem0 = await timed(`${name}: mem0`, () =>
      askMem0({ home, folder: join(folder, `mem0-${slug}`), model, conversations, embeddings }),
    );
    const title = `mem0 ${version}${ofMem0.hasKeywords ? '' : ', vectors only'}`;
    results.set(
      title,
      ofMem0.results.map(({ plain }) => plain),
    );
    if (embeddings.prefix !== '')
      results.set(
        `${title}, with the query prefix`,
        ofMem0.results.map(({ prefixed }) => prefixed),
      );
  }
  return [...results].flatMap(([method, ofConversations]) => toMeasured(name, method, conversations, ofConversations));
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
      part: half === null ? name : `${name}, ${half} half`,
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
      only: { type: 'string' },
      model: { type: 'string', default: 'local/bge-small-en-v1.5' },
      config: { type: 'string' },
      'without-mem0': { type: 'boolean', default: false },
      json: { type: 'string' },
    },
  });
  if (values.only !== undefined && !['locomo', 'beam'].includes(values.only)) throw new BootstrapError('--only: must be locomo or beam');
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

/** Returns a function that prints a number at most every 20 seconds. @param {string} title */
function createProgress(title) {
  let printedAt = performance.now();
  return (/** @type {number} */ number) => {
    if (performance.now() - printedAt < progressMs) return;
    printedAt = performance.now();
    console.log(`${title}: ${number}`);
  };
}
