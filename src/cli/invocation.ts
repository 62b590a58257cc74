import { Option } from 'commander';
import type { Environment } from '../config/environment.ts';
import { isObject, type JsonObject } from '../core/json/narrow.ts';
import { type Command, CommandError, type CommandOutput, type Invocation } from './command.ts';
import { apiOperations, type Member, parametersOf } from './operations.ts';
import { optionName, parseMember, readBodyFile } from './options.ts';
import { connectService } from './service-client.ts';
import { requireChange } from './special-commands.ts';

/**
 * Returns a command's positional arguments. The project is a positional argument of the `projects` commands and an
 * option of all others.
 */
export function argumentsOf(name: string, { operations, args = [] }: Command): { parameter: string; isRequired: boolean }[] {
  const inPath = new Set(operations.flatMap(parametersOf));
  if (!isOfProjects(name)) inPath.delete('project');
  const isRequired = (parameter: string): boolean => operations.every((address) => parametersOf(address).includes(parameter));
  return [
    ...[...inPath].map((parameter) => ({ parameter, isRequired: isRequired(parameter) })),
    ...args.map((parameter) => ({ parameter, isRequired: true })),
  ];
}

/** Returns the `--project` option, or null if the command takes no project or takes it as a positional argument. */
export function projectOption(name: string, { operations }: Command): Option | null {
  const inPath = operations.filter((address) => parametersOf(address).includes('project'));
  if (isOfProjects(name) || inPath.length === 0) return null;
  const isRequired = inPath.length === operations.length;
  return new Option('--project <project>', `slug of the project${isRequired ? ' (required)' : ''}`);
}

export function membersOf(name: string, command: Command): Member[] {
  const { operations, args = [], without = [] } = command;
  const others = [...args, ...without, ...(projectOption(name, command) ? ['project'] : [])];
  const all = operations.flatMap((address) => apiOperations[address]?.members ?? []);
  return [...new Map(all.map((member) => [member.name, member])).values()].filter((member) => !others.includes(member.name));
}

function isOfProjects(name: string): boolean {
  return name.startsWith('projects ');
}

interface Given {
  readonly name: string;
  readonly command: Command;
  readonly environment: Environment;
  readonly output: CommandOutput;
  readonly options: Invocation['options'];
  readonly given: readonly string[];
}

/** Runs a command and prints its result. Throws CommandError. */
export async function runInvocation(given: Given): Promise<void> {
  const { name, command, options, output } = given;
  const invocation = await createInvocation(given);
  const response = await (command.run ? command.run(invocation) : sendFirst(name, command, invocation));
  output.write(options.json === true ? `${JSON.stringify(response, null, 2)}\n` : command.format(response, invocation));
}

function sendFirst(name: string, { operations }: Command, { send, args, options, members }: Invocation): Promise<JsonObject> {
  const isGiven = (parameter: string): boolean => (args[parameter] ?? options[parameter]) !== undefined;
  const address = operations.find((one) => parametersOf(one).every(isGiven)) ?? operations.at(-1) ?? '';
  if (/^(?:put|patch) /.test(address)) requireChange(members, name.split(' ', 1)[0] ?? name);
  return send(address);
}

async function createInvocation({ name, command, environment, output, options, given }: Given): Promise<Invocation> {
  const args = Object.fromEntries(argumentsOf(name, command).map(({ parameter }, at) => [parameter, given[at]]));
  // URL parsers resolve `.` and `..`, even if they're escaped, and the request would go somewhere else.
  for (const parameter of command.operations.flatMap(parametersOf)) {
    const value = args[parameter] ?? options[parameter];
    if (value === '.' || value === '..') throw new CommandError(`${parameter}: must not be "${value}", because URL paths can't contain it`);
  }
  const members = await readMembers(membersOf(name, command), options);
  for (const argument of command.args ?? []) members[argument] = args[argument];
  const client = await connectService(environment, typeof options.url === 'string' ? options.url : undefined);

  const resolve = (address: string): readonly [method: string, path: string, body: JsonObject | undefined] => {
    const [method = '', template = ''] = address.split(' ');
    const path = template.replaceAll(/\{(\w+)\}/g, (_, parameter: string) => {
      const value = args[parameter] ?? options[parameter];
      if (typeof value !== 'string' || value === '')
        throw new CommandError(parameter === 'project' ? 'no project: add --project <project>' : `${parameter} must not be empty`);
      return encodeURIComponent(value);
    });
    const inQuery = (apiOperations[address]?.members ?? []).filter((member) => member.in === 'query').map((member) => member.name);
    const entries = Object.entries(members);
    const query = new URLSearchParams(
      entries.filter(([key]) => inQuery.includes(key)).map(([key, value]): [string, string] => [key, String(value)]),
    );
    const body = Object.fromEntries(entries.filter(([key]) => !inQuery.includes(key)));
    return [method.toUpperCase(), query.size === 0 ? path : `${path}?${query}`, apiOperations[address]?.body ? body : undefined];
  };
  return {
    ...{ options, args, members, output },
    warn: (text) => output.writeError(`${text}\n`),
    async send(address, body) {
      const [method, path, defaultBody] = resolve(address);
      return client.send(method, path, body ?? defaultBody, command.timeoutMs).catch((error: unknown) => {
        throw error instanceof CommandError ? nameOptions(error, membersOf(name, command)) : error;
      });
    },
    upload: (address, chunks) => client.upload(resolve(address)[1], chunks),
    download: (address) => client.download(resolve(address)[1]),
  };
}

/** Collects the fields of the request. An option wins over the same field in `--file`. */
async function readMembers(members: readonly Member[], options: Invocation['options']): Promise<Record<string, unknown>> {
  const read: Record<string, unknown> = typeof options.file === 'string' ? { ...(await readBodyFile(options.file)) } : {};
  for (const member of members) {
    const given = options[attributeOf(member)];
    if (given === undefined) continue;
    const value = parseMember(member, given);
    const [outer = '', inner] = member.name.split('.');
    read[outer] = inner === undefined ? value : { ...(isObject(read[outer]) ? read[outer] : {}), [inner]: value };
  }
  return read;
}

function attributeOf({ name }: Member): string {
  return new Option(`--${optionName(name)}`).attributeName();
}

/**
 * Replaces the names of fields in the service's error messages with the names of options, because users don't know the
 * fields.
 */
function nameOptions({ message, status, cause }: CommandError, members: readonly Member[]): CommandError {
  const named = message.replaceAll(/(^|; )([a-z_]+(?:\.[a-z_]+)*)((?:\.\d+)?: )/g, (all, before: string, path: string, after: string) =>
    members.some(({ name }) => name === path) ? `${before}--${optionName(path)}${after}` : all,
  );
  return new CommandError(named, status, cause);
}
