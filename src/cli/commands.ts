/**
 * The provisioning commands: `gateway projects|keys|calls|batches|leases|catalog|usage …`. Each sends one or two requests to the running
 * service and prints the response as text, or with `--json` unchanged. Exits with 0, or with 1 and one line on standard error.
 */
import { parseArgs } from 'node:util';
import type { Environment } from '../config/environment.ts';
import { errorMessage } from '../core/error-messages.ts';
import { asArray, asObject, type JsonObject } from '../core/json/narrow.ts';
import { importCatalog, removeImportedRow } from './catalog-commands.ts';
import { formatBatch, formatBatches, formatReplay } from './format-batches.ts';
import { formatCatalog, formatImport, formatRemoval } from './format-catalog.ts';
import { formatCalls, formatIssuedKey, formatKeys, formatLeases, formatProjects } from './format-reports.ts';
import { usageFor } from './help.ts';
import { CommandError, connectService, type ServiceClient } from './service-client.ts';
import { formatReprice, repriceUsage } from './usage-commands.ts';

export interface CommandOutput {
  write(text: string): void;
  writeError(text: string): void;
}

/** Runs a command; returns the exit status. */
export async function runCommand(argv: readonly string[], environment: Environment, output: CommandOutput): Promise<number> {
  try {
    const { positionals, options } = parseCommandLine(argv);
    const name = positionals.slice(0, positionals[0] === 'calls' ? 1 : 2).join(' ');
    const command = commands[name];
    if (options.help === true || !command) {
      const usage = usageFor(positionals[0]);
      if (options.help === true) output.write(usage);
      else output.writeError(`gateway: ${name === '' ? 'missing command' : `unknown command "${name}"`}\n\n${usage}`);
      return options.help === true ? 0 : 1;
    }
    const rest = positionals.slice(name.split(' ').length);
    if (rest.length > command.maxArguments) throw new CommandError(`"${rest[command.maxArguments]}" is an unexpected argument`);
    const client = await connectService(environment, options.url);
    const warn = (text: string): void => output.writeError(`${text}\n`);
    const response = await command.run({ client, options, argument: rest[0], warn });
    output.write(options.json === true ? `${JSON.stringify(response, null, 2)}\n` : command.format(response, options));
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

type Options = ReturnType<typeof parseCommandLine>['options'];

function parseCommandLine(argv: readonly string[]) {
  try {
    const { positionals, values } = parseArgs({ args: [...argv], options: optionTypes, allowPositionals: true, strict: true });
    return { positionals, options: values };
  } catch (cause) {
    // Only the first sentence of Node's message says what is wrong; advice about "--" follows.
    throw new CommandError(errorMessage(cause).split('. ', 1)[0] ?? 'the options cannot be read', null, cause);
  }
}

interface Invocation {
  readonly client: ServiceClient;
  readonly options: Options;
  /** The positional argument of commands that take one, such as a project or a key prefix. */
  readonly argument: string | undefined;
  readonly warn: (text: string) => void;
}

interface Command {
  /** Number of positional arguments it accepts. */
  readonly maxArguments: 0 | 1;
  run(invocation: Invocation): Promise<JsonObject>;
  format(response: JsonObject, options: Options): string;
}

const whichKey = 'which key? name it by its prefix, see gateway keys list';
const whichBatchToReplay = 'which batch? see gateway batches list, or add --project <project> --state failed';
const whichBatch = 'which batch? see gateway batches list';

const commands: Readonly<Record<string, Command>> = {
  'projects list': {
    maxArguments: 0,
    run: ({ client }) => client.send('GET', '/provision/teams'),
    format: (response) => formatProjects(getRows(response)),
  },
  'projects create': { maxArguments: 1, run: createProject, format: (response) => formatProjects([response]) },
  'keys create': { maxArguments: 0, run: createKey, format: (response, { project }) => formatIssuedKey(response, project) },
  'keys list': {
    maxArguments: 0,
    run: ({ client, options }) => client.send('GET', `${projectPath(options)}/keys`),
    format: (response) => formatKeys(getRows(response)),
  },
  'keys revoke': {
    maxArguments: 1,
    run: ({ client, options, argument }) => client.send('DELETE', `${projectPath(options)}/keys/${requireSegment(argument, whichKey)}`),
    format: (response) => formatKeys([response]),
  },
  'keys rotate': {
    maxArguments: 1,
    run: ({ client, options, argument }) =>
      client.send('POST', `${projectPath(options)}/keys/${requireSegment(argument, whichKey)}/rotate`, {
        grace_seconds: parseNumber(options.grace, 'grace') ?? 0,
      }),
    format: (response, { project }) => formatIssuedKey(response, project),
  },
  calls: { maxArguments: 0, run: listCalls, format: (response) => formatCalls(getRows(response)) },
  'batches list': {
    maxArguments: 0,
    run: ({ client, options: { project, state } }) => client.send('GET', `/provision/batches${toQuery({ project, state })}`),
    format: (response) => formatBatches(getRows(response)),
  },
  'batches show': {
    maxArguments: 1,
    run: ({ client, options, argument }) => client.send('GET', `${batchesPath(options)}/${requireSegment(argument, whichBatch)}`),
    format: formatBatch,
  },
  'batches replay': {
    maxArguments: 1,
    run: ({ client, options, argument }) => {
      const { project, state } = options;
      if (argument === undefined && state !== undefined && project !== undefined)
        return client.send('POST', '/provision/batches/replay', { project, state });
      return client.send('POST', `${batchesPath(options)}/${requireSegment(argument, whichBatchToReplay)}/replay`);
    },
    format: formatReplay,
  },
  'leases list': {
    maxArguments: 0,
    run: ({ client }) => client.send('GET', '/provision/leases'),
    format: (response) => formatLeases(getRows(response)),
  },
  'leases release': {
    maxArguments: 1,
    run: ({ client, argument }) =>
      client.send('DELETE', `/provision/leases/${requireSegment(argument, 'which process? see gateway leases list')}`),
    format: ({ process, released }) => `Released ${String(released)} ${released === 1 ? 'lease' : 'leases'} of ${String(process)}.\n`,
  },
  'catalog list': {
    maxArguments: 0,
    run: ({ client }) => client.send('GET', '/provision/catalog'),
    format: (response) => formatCatalog(getRows(response)),
  },
  'catalog import': {
    maxArguments: 1,
    run: ({ client, options, argument }) => importCatalog({ client, file: argument, as: options.as ?? [] }),
    format: formatImport,
  },
  'catalog remove': { maxArguments: 1, run: ({ client, argument }) => removeImportedRow(client, argument), format: formatRemoval },
  'usage reprice': { maxArguments: 0, run: ({ client, options }) => repriceUsage(client, options), format: formatReprice },
};

async function createProject({ client, options, argument }: Invocation): Promise<JsonObject> {
  const slug = argument ?? options.project;
  if (slug === undefined) throw new CommandError('which project? gateway projects create <project>');
  const path = `/provision/teams/${encodeURIComponent(slug)}`;
  const existing = await client.send('GET', path).catch(nullIfNotFound);
  // PUT would change the existing project.
  if (existing !== null) throw new CommandError(`the project ${slug} already exists`);
  return client.send('PUT', path, { name: options.name });
}

async function createKey({ client, options, warn }: Invocation): Promise<JsonObject> {
  const path = projectPath(options);
  const body = {
    name: options.name ?? 'unnamed',
    models: options.models?.split(',').map((model) => model.trim()),
    ceilings: {
      calls: parseNumber(options.calls, 'calls'),
      cost: parseNumber(options.cost, 'cost'),
      rpm: parseNumber(options.rpm, 'rpm'),
      tpm: parseNumber(options.tpm, 'tpm'),
    },
    windows: { calls: options['calls-window'], cost: options['cost-window'] },
    expires_at: options.expires,
  };
  const key = await client.send('POST', `${path}/keys`, body).catch(nullIfNotFound);
  if (key !== null) return key;
  await client.send('PUT', path, {});
  warn(`Created the project ${options.project}.`);
  return client.send('POST', `${path}/keys`, body);
}

function nullIfNotFound(error: unknown): null {
  if (error instanceof CommandError && error.status === 404) return null;
  throw error;
}

function listCalls({ client, options }: Invocation): Promise<JsonObject> {
  const { limit, before, task, source } = options;
  return client.send('GET', `${projectPath(options)}/calls${toQuery({ limit, before, task_id: task, source })}`);
}

/** The query part of a URL with the members that are set. */
function toQuery(members: Readonly<Record<string, string | undefined>>): string {
  return `?${new URLSearchParams(Object.entries(members).filter((entry): entry is [string, string] => entry[1] !== undefined))}`;
}

function projectPath({ project }: Options): string {
  if (project === undefined || project === '') throw new CommandError('which project? add --project <project>');
  return `/provision/teams/${encodeURIComponent(project)}`;
}

/** With a project, a batch of another one is not found. */
function batchesPath(options: Options): string {
  return options.project === undefined ? '/provision/batches' : `${projectPath(options)}/batches`;
}

/** A positional argument as a path segment. Throws `question` when it is missing. */
function requireSegment(argument: string | undefined, question: string): string {
  if (argument === undefined) throw new CommandError(question);
  return encodeURIComponent(argument);
}

function parseNumber(text: string | undefined, name: string): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d+(\.\d+)?$/.test(text)) throw new CommandError(`--${name} must be a number`);
  return Number(text);
}

function getRows(response: JsonObject): JsonObject[] {
  return asArray(response.data).map(asObject);
}
