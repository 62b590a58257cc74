/**
 * The provisioning commands: `gateway projects|keys|calls|batches|catalog|usage …`. Each is one or two requests to the running service and a readable answer, or
 * with `--json` the service's own. Exit status 0, or 1 with one line on standard error that says what is wrong.
 */
import { parseArgs } from 'node:util';
import type { Environment } from '../config/environment.ts';
import { messageOf } from '../core/error-messages.ts';
import { type JsonObject, listOf, objectOf } from '../core/json/narrow.ts';
import { importCatalog, removeImported } from './catalog-commands.ts';
import { describeBatch, describeBatches, describeReplay } from './format-batches.ts';
import { describeCatalog, describeImport, describeRemoval } from './format-catalog.ts';
import { describeCalls, describeIssuedKey, describeKeys, describeLeases, describeProjects } from './format-reports.ts';
import { usageOf } from './help.ts';
import { CommandError, connectService, type ServiceClient } from './service-client.ts';
import { describeReprice, repriceUsage } from './usage-commands.ts';

export interface CommandOutput {
  write(text: string): void;
  writeError(text: string): void;
}

/** Runs a command; returns the exit status. */
export async function runCommand(argv: readonly string[], environment: Environment, output: CommandOutput): Promise<number> {
  try {
    const { words, options } = parse(argv);
    const name = words.slice(0, words[0] === 'calls' ? 1 : 2).join(' ');
    const command = commands[name];
    if (options.help === true || !command) {
      const usage = usageOf(words[0]);
      if (options.help === true) output.write(usage);
      else output.writeError(`gateway: ${name === '' ? 'a command is needed' : `there is no command "${name}"`}\n\n${usage}`);
      return options.help === true ? 0 : 1;
    }
    const rest = words.slice(name.split(' ').length);
    if (rest.length > command.words) throw new CommandError(`"${rest[command.words]}" is one word too many`);
    const client = await connectService(environment, options.url);
    const note = (text: string): void => output.writeError(`${text}\n`);
    const answer = await command.run({ client, options, word: rest[0], note });
    output.write(options.json === true ? `${JSON.stringify(answer, null, 2)}\n` : command.describe(answer, options));
    return 0;
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    output.writeError(`gateway: ${error.message}\n`);
    return 1;
  }
}

const optionTypes = {
  project: { type: 'string' },
  name: { type: 'string' },
  models: { type: 'string' },
  calls: { type: 'string' },
  cost: { type: 'string' },
  rpm: { type: 'string' },
  tpm: { type: 'string' },
  'calls-window': { type: 'string' },
  'cost-window': { type: 'string' },
  expires: { type: 'string' },
  grace: { type: 'string' },
  limit: { type: 'string' },
  before: { type: 'string' },
  task: { type: 'string' },
  source: { type: 'string' },
  state: { type: 'string' },
  as: { type: 'string', multiple: true },
  from: { type: 'string' },
  to: { type: 'string' },
  prices: { type: 'string' },
  url: { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

type Options = ReturnType<typeof parse>['options'];

function parse(argv: readonly string[]) {
  try {
    const { positionals, values } = parseArgs({ args: [...argv], options: optionTypes, allowPositionals: true, strict: true });
    return { words: positionals, options: values };
  } catch (cause) {
    // Node's sentence goes on with advice about "--"; its first sentence is what is wrong.
    throw new CommandError(messageOf(cause).split('. ', 1)[0] ?? 'the options cannot be read', null, cause);
  }
}

interface Invocation {
  readonly client: ServiceClient;
  readonly options: Options;
  /** The word after the command, where it takes one: a project or a prefix. */
  readonly word: string | undefined;
  readonly note: (text: string) => void;
}

interface Command {
  /** How many words it takes after its name. */
  readonly words: 0 | 1;
  run(invocation: Invocation): Promise<JsonObject>;
  describe(answer: JsonObject, options: Options): string;
}

const commands: Readonly<Record<string, Command>> = {
  'projects list': {
    words: 0,
    run: ({ client }) => client.send('GET', '/provision/teams'),
    describe: (answer) => describeProjects(rowsOf(answer)),
  },
  'projects create': { words: 1, run: createProject, describe: (answer) => describeProjects([answer]) },
  'keys create': { words: 0, run: createKey, describe: (answer, { project }) => describeIssuedKey(answer, project) },
  'keys list': {
    words: 0,
    run: ({ client, options }) => client.send('GET', `${teamPath(options)}/keys`),
    describe: (answer) => describeKeys(rowsOf(answer)),
  },
  'keys revoke': {
    words: 1,
    run: ({ client, options, word }) => client.send('DELETE', `${teamPath(options)}/keys/${prefixOf(word)}`),
    describe: (answer) => describeKeys([answer]),
  },
  'keys rotate': {
    words: 1,
    run: ({ client, options, word }) =>
      client.send('POST', `${teamPath(options)}/keys/${prefixOf(word)}/rotate`, { grace_seconds: numberOf(options.grace, 'grace') ?? 0 }),
    describe: (answer, { project }) => describeIssuedKey(answer, project),
  },
  calls: { words: 0, run: listCalls, describe: (answer) => describeCalls(rowsOf(answer)) },
  'batches list': {
    words: 0,
    run: ({ client, options }) =>
      client.send('GET', `${teamPath(options)}/batches${options.state === undefined ? '' : `?state=${encodeURIComponent(options.state)}`}`),
    describe: (answer) => describeBatches(rowsOf(answer)),
  },
  'batches show': {
    words: 1,
    run: ({ client, options, word }) => client.send('GET', `${teamPath(options)}/batches/${batchOf(word)}`),
    describe: describeBatch,
  },
  'batches replay': {
    words: 1,
    run: ({ client, options, word }) => client.send('POST', `${teamPath(options)}/batches/${batchOf(word)}/replay`),
    describe: describeReplay,
  },
  'leases list': {
    words: 0,
    run: ({ client }) => client.send('GET', '/provision/leases'),
    describe: (answer) => describeLeases(rowsOf(answer)),
  },
  'leases release': {
    words: 1,
    run: ({ client, word }) => client.send('DELETE', `/provision/leases/${processOf(word)}`),
    describe: ({ process, released }) => `${String(released)} leases of ${String(process)} are written off.\n`,
  },
  'catalog list': {
    words: 0,
    run: ({ client }) => client.send('GET', '/provision/catalog'),
    describe: (answer) => describeCatalog(rowsOf(answer)),
  },
  'catalog import': {
    words: 1,
    run: ({ client, options, word }) => importCatalog({ client, file: word, as: options.as ?? [] }),
    describe: describeImport,
  },
  'catalog remove': { words: 1, run: ({ client, word }) => removeImported(client, word), describe: describeRemoval },
  'usage reprice': { words: 0, run: ({ client, options }) => repriceUsage(client, options), describe: describeReprice },
};

async function createProject({ client, options, word }: Invocation): Promise<JsonObject> {
  const slug = word ?? options.project;
  if (slug === undefined) throw new CommandError('which project? gateway projects create <project>');
  const path = `/provision/teams/${encodeURIComponent(slug)}`;
  const exists = await client.send('GET', path).then(
    () => true,
    (error: unknown) => {
      if (error instanceof CommandError && error.status === 404) return false;
      throw error;
    },
  );
  // PUT would change the one that is there.
  if (exists) throw new CommandError(`the project ${slug} exists already`);
  return client.send('PUT', path, { name: options.name });
}

async function createKey({ client, options, note }: Invocation): Promise<JsonObject> {
  const path = teamPath(options);
  const body = {
    name: options.name ?? 'unnamed',
    models: options.models?.split(',').map((model) => model.trim()),
    ceilings: {
      calls: numberOf(options.calls, 'calls'),
      cost: numberOf(options.cost, 'cost'),
      rpm: numberOf(options.rpm, 'rpm'),
      tpm: numberOf(options.tpm, 'tpm'),
    },
    windows: { calls: options['calls-window'], cost: options['cost-window'] },
    expires_at: options.expires,
  };
  try {
    return await client.send('POST', `${path}/keys`, body);
  } catch (error) {
    if (!(error instanceof CommandError && error.status === 404)) throw error;
    await client.send('PUT', path, {});
    note(`The project ${options.project} did not exist and was made.`);
    return client.send('POST', `${path}/keys`, body);
  }
}

function listCalls({ client, options }: Invocation): Promise<JsonObject> {
  const { limit, before, task, source } = options;
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ limit, before, task_id: task, source })) if (value !== undefined) query.set(name, value);
  return client.send('GET', `${teamPath(options)}/calls?${query}`);
}

function teamPath({ project }: Options): string {
  if (project === undefined || project === '') throw new CommandError('which project? add --project <project>');
  return `/provision/teams/${encodeURIComponent(project)}`;
}

function prefixOf(word: string | undefined): string {
  if (word === undefined) throw new CommandError('which key? name it by its prefix, see gateway keys list');
  return encodeURIComponent(word);
}

function processOf(word: string | undefined): string {
  if (word === undefined) throw new CommandError('which process? see gateway leases list');
  return encodeURIComponent(word);
}

function batchOf(word: string | undefined): string {
  if (word === undefined) throw new CommandError('which batch? see gateway batches list');
  return encodeURIComponent(word);
}

function numberOf(text: string | undefined, name: string): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d+(\.\d+)?$/.test(text)) throw new CommandError(`--${name} must be a number`);
  return Number(text);
}

function rowsOf(answer: JsonObject): JsonObject[] {
  return listOf(answer.data).map(objectOf);
}
