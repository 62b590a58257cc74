/** Implements the commands that send more than one request. */
import { asArray, asObject, type JsonObject } from '../core/json/narrow.ts';
import { CommandError, type Invocation } from './command.ts';
import { readInput } from './options.ts';

const team = '/provision/teams/{project}';

export async function createProject({ send, args }: Invocation): Promise<JsonObject> {
  const existing = await send(`get ${team}`).catch(nullIfNotFound);
  // A PUT would change an existing project instead of failing, so check that there's none.
  if (existing !== null) throw new CommandError(`the project ${args.project} already exists`);
  return send(`put ${team}`);
}

export async function setProject({ send, members }: Invocation): Promise<JsonObject> {
  requireChange(members, 'projects');
  // A PUT with a misspelled name would create a new project, so check that the project exists.
  await send(`get ${team}`);
  return send(`put ${team}`);
}

export async function createKey({ send, options, members, warn }: Invocation): Promise<JsonObject> {
  const body = { name: 'unnamed', ...members };
  const issue = (): Promise<JsonObject> => send(`post ${team}/keys`, body);
  const created = async (): Promise<JsonObject> => {
    await send(`put ${team}`, {});
    warn(`Created the project ${String(options.project)}.`);
    return issue();
  };
  const key = (await issue().catch(nullIfNotFound)) ?? (await created());
  for (const { message } of asArray(key.warnings).map(asObject)) warn(`Warning: ${String(message)}.`);
  return key;
}

export function replayBatches({ send, args, options, members }: Invocation): Promise<JsonObject> {
  const { project, state } = options;
  if (args.id !== undefined) {
    if (state !== undefined) throw new CommandError('--state replays all batches of a project, so leave out the batch id');
    return send(project === undefined ? 'post /provision/batches/{id}/replay' : `post ${team}/batches/{id}/replay`);
  }
  if (project === undefined || state === undefined)
    throw new CommandError('no batch: pass a batch id (see gateway batches list), or add --project <project> --state failed');
  return send('post /provision/batches/replay', { ...members, project });
}

export async function createPerson({ send, options, members }: Invocation): Promise<JsonObject> {
  const { passwordFile: file } = options;
  if (typeof file !== 'string') return send('post /provision/people');
  const [password = ''] = (await readInput(file)).split(/\r?\n/, 1);
  return send('post /provision/people', { ...members, password });
}

/** Shows the call with this id, which may be a refused one. Without an id, lists calls. */
export async function readCalls({ send, args, options }: Invocation): Promise<JsonObject> {
  if (args.id !== undefined) {
    const call = await send(`get ${team}/calls/{id}`).catch(nullIfNotFound);
    if (call !== null) return call;
    return send(`get ${team}/refused-calls/{id}`).catch((error: unknown) => {
      const isMissing = error instanceof CommandError && error.message.includes('no such refused call');
      throw isMissing ? new CommandError('the project has no such call', error.status, error) : error;
    });
  }
  const parent = options.project === undefined ? '/provision' : team;
  const isRefused = options.refused === true || options.reason !== undefined || options.key !== undefined;
  if (isRefused && options.failed === true)
    throw new CommandError('refused calls have no attempts; leave out either --failed or --refused');
  if (isRefused && options.taskId !== undefined) throw new CommandError('refused calls are not recorded by task; leave out --task-id');
  return send(`get ${parent}/${isRefused ? 'refused-calls' : 'calls'}`);
}

/** Throws if the user hasn't passed any option that changes something. */
export function requireChange(members: JsonObject, group: string): void {
  if (Object.keys(members).length === 0)
    throw new CommandError(`nothing to change: pass at least one option (see gateway ${group} --help)`);
}

function nullIfNotFound(error: unknown): null {
  if (error instanceof CommandError && error.status === 404) return null;
  throw error;
}
