/**
 * Compares the service with its OpenAPI document. Schemathesis sends requests that the document allows and requests
 * that it forbids, and checks the status, headers and body of each response. Exits with Schemathesis's status.
 *
 *   npm run test-openapi -- [--max-examples 25] [--seed 1] [any option of `schemathesis run`]
 *
 * This needs Python 3.10 or newer. Schemathesis is installed into the cache directory. It tests a separate service with
 * the demo vendor and the embedded database, on a loopback address and without Temporal. See docs/testing.md for the
 * results.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cacheDirectory } from './cache.js';
import { withFileLock } from './file-lock.js';
import { say } from './npm.js';
import { adminToken, createKey, createPrograms } from './programs.js';

const version = '4.32.5';
const given = process.argv.slice(2);

/**
 * These operations have rules that a schema can't express. So they reject some bodies that are valid according to the
 * schema.
 */
const beyondSchemas = [
  // The model has to be in the catalog, and each vendor accepts different parameters.
  ['POST', '/v1/(chat|completions|messages|embeddings|moderations|rerank|responses|images|audio|video).*'],
  // Page cursors have to be ids of models in the list.
  ['GET', '/v1/models'],
  // Models and prices have to follow the rules of gateway.yaml.
  ['PUT', '/provision/catalog'],
  // The schema accepts any text as a time zone, but it has to be one that the system knows.
  ['PUT', '/provision/teams/\\{project\\}'],
  // The deletion period must be longer than the learning interval.
  ['PUT', '/provision/teams/\\{project\\}/memory'],
  // Expressions have to use RE2 syntax.
  ['PUT', '/provision/teams/\\{project\\}/rules'],
  // The expiry of a key has to be in the future.
  ['POST', '/provision/teams/\\{project\\}/keys'],
  // The end of the time range has to be later than its start.
  ['POST', '/provision/usage/reprice'],
];

const schemathesis = await install();
const programs = createPrograms();
const folder = await mkdtemp(join(tmpdir(), 'gateway-openapi-'));
try {
  const { url } = await programs.start('start', { env: { GATEWAY_DATA_DIR: join(folder, 'data'), LOG_LEVEL: 'silent', DATABASE_URL: '' } });
  const key = await createKey(url, 'tested');
  const config = join(folder, 'schemathesis.toml');
  await writeFile(config, settings(key));
  // Schemathesis also has a stateful phase. It would revoke the key that we need for all requests, so leave it out.
  const options = ['--phases', 'examples,coverage,fuzzing', '--workers', '1', '--generation-database', 'none', ...defaults()];
  process.exitCode = await run(schemathesis, ['--config-file', config, 'run', `${url}/openapi.json`, ...options, ...given], folder);
} finally {
  await programs.stopAll();
  await rm(folder, { recursive: true, force: true });
}

/** Returns our default options, except for those that are set on the command line. */
function defaults() {
  const isGiven = (/** @type {string} */ name) => given.some((word) => word === name || word.startsWith(`${name}=`));
  return Object.entries({ '--max-examples': '25', '--seed': '1' }).flatMap(([name, value]) => (isGiven(name) ? [] : [name, value]));
}

/**
 * Writes the settings of Schemathesis. They contain each rule that the document can't express, and explain it.
 * @param {string} key
 */
function settings(key) {
  return `
[auth.openapi.virtualKey]
bearer = "${key}"
[auth.openapi.messagesKey]
api_key = "${key}"
[auth.openapi.adminToken]
bearer = "${adminToken}"

# 502 and 503 are documented answers: a vendor failed, or a deadline was too short.
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 502, 503]

# An unknown method of a known path is 404 (docs/api/reference.md#requests).
[checks.unsupported_method]
enabled = false

${beyondSchemas.map(toOperation).join('')}
# Members that are forwarded have the types that vendors document, and vendors refuse others.
[[operations]]
include-path-regex = '^/v1/(images|audio|video)/'
[operations.checks.negative_data_rejection]
enabled = false
`;
}

/** @param {string[]} operation */
function toOperation([method, path]) {
  return `
[[operations]]
include-method = "${method}"
include-path-regex = '^${path}$'
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 401, 403, 404, 409, 413, 415, 422, 429, "5xx"]
`;
}

/** Installs Schemathesis if necessary, and returns the path of the executable. */
async function install() {
  const place = join(cacheDirectory(), `schemathesis-${version}`);
  const program = join(place, 'bin', 'schemathesis');
  if (existsSync(program)) return program;
  await withFileLock(join(cacheDirectory(), 'locks', 'schemathesis.lock'), {
    onWait: () => say('another process is installing Schemathesis; waiting for it'),
    work: async () => {
      if (existsSync(program)) return;
      say(`installing Schemathesis ${version}`);
      // The scripts in a virtual environment contain its path, so it doesn't help to install it elsewhere and rename
      // the folder. But pip writes the executable at the end, so if there is one, everything else is there as well.
      await rm(place, { recursive: true, force: true });
      await mustRun('python3', ['-m', 'venv', place]);
      await mustRun(join(place, 'bin', 'pip'), ['install', '--quiet', '--disable-pip-version-check', `schemathesis==${version}`]);
    },
  });
  return program;
}

/**
 * @param {string} program
 * @param {string[]} args
 */
async function mustRun(program, args) {
  const status = await run(program, args, tmpdir());
  if (status !== 0) throw new Error(`${program} exited with status ${status}`);
}

/**
 * Resolves to the exit status.
 * @param {string} program
 * @param {string[]} args
 * @param {string} cwd
 * @returns {Promise<number>}
 */
function run(program, args, cwd) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, stdio: 'inherit' });
    child.once('error', reject);
    child.once('exit', (status) => resolve(status ?? 1));
  });
}
