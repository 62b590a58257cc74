/**
 * Runs the commands of `command-table.ts`. Each sends one or a few requests to the running service and prints the response as text, or with
 * `--json` unchanged. Exits with 0, or with 1 and one line on standard error.
 */
import { parseArgs } from 'node:util';
import type { Environment } from '../config/environment.ts';
import { errorMessage } from '../core/error-messages.ts';
import { asString, type JsonObject } from '../core/json/narrow.ts';
import type { Command, CommandOutput, Invocation } from './command.ts';
import { commands } from './command-table.ts';
import { usageFor } from './help.ts';
import { isOption, type OptionValues, options, readMembers, textOf, toQuery } from './options.ts';
import { CommandError, connectService, type Method, type ServiceClient } from './service-client.ts';
import { requireChange } from './special-commands.ts';

/** Runs a command; returns the exit status. */
export async function runCommand(argv: readonly string[], environment: Environment, output: CommandOutput): Promise<number> {
  try {
    const { positionals, values } = parseCommandLine(argv);
    const name = [positionals.slice(0, 2).join(' '), positionals[0] ?? ''].find((known) => Object.hasOwn(commands, known));
    const command = name === undefined ? undefined : commands[name];
    if (values.help === true || name === undefined || !command) {
      const usage = usageFor(positionals[0]);
      const asked = positionals.slice(0, 2).join(' ');
      if (values.help === true) output.write(usage);
      else output.writeError(`gateway: ${asked === '' ? 'missing command' : `unknown command "${asked}"`}\n\n${usage}`);
      return values.help === true ? 0 : 1;
    }
    checkOptions(name, command, values);
    const args = readArguments(command, positionals.slice(name.split(' ').length));
    const client = await connectService(environment, textOf(values, 'url'));
    const warn = (text: string): void => output.writeError(`${text}\n`);
    const invocation = await createInvocation({ command, client, values, args, warn, output });
    const response = await (command.run ? command.run(invocation) : sendFirst(name, command, invocation));
    output.write(values.json === true ? `${JSON.stringify(response, null, 2)}\n` : command.format(response, invocation));
    return 0;
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    output.writeError(`gateway: ${error.message}\n`);
    return 1;
  }
}

const commonOptions = { url: { type: 'string' }, json: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } } as const;

function parseCommandLine(argv: readonly string[]): { positionals: string[]; values: OptionValues } {
  const own = Object.entries(options).map(
    ([name, { value, merge }]) =>
      [name, { type: value === undefined ? ('boolean' as const) : ('string' as const), ...(merge && { multiple: true }) }] as const,
  );
  try {
    return parseArgs({
      args: [...argv],
      options: { ...Object.fromEntries(own), ...commonOptions },
      allowPositionals: true,
      strict: true,
      allowNegative: true,
    });
  } catch (cause) {
    // Only the first sentence of Node's message says what is wrong; advice about "--" follows.
    throw new CommandError(errorMessage(cause).split('. ', 1)[0] ?? 'the options cannot be read', null, cause);
  }
}

/** An option of another command would silently do nothing. */
function checkOptions(name: string, command: Command, values: OptionValues): void {
  const unknown = Object.keys(values).find(
    (option) => isOption(option) && !command.options?.includes(option) && !(option === 'project' && command.args?.project !== undefined),
  );
  if (unknown !== undefined) throw new CommandError(`gateway ${name} has no option --${unknown}`);
}

function readArguments({ args = {} }: Command, given: readonly string[]): Invocation['args'] {
  const names = Object.keys(args);
  const extra = given[names.length];
  if (extra !== undefined) throw new CommandError(`"${extra}" is an unexpected argument`);
  return Object.fromEntries(names.map((name, index) => [name, given[index]]));
}

interface Given {
  readonly command: Command;
  readonly client: ServiceClient;
  readonly values: OptionValues;
  readonly args: Invocation['args'];
  readonly warn: (text: string) => void;
  readonly output: CommandOutput;
}

async function createInvocation({ command, client, values, args, warn, output }: Given): Promise<Invocation> {
  const inPath = parametersOf(command.operations.join(' '));
  const given = Object.entries(args).filter(([name, value]) => value !== undefined && !inPath.includes(name));
  const members = { ...(await readMembers(values, command.options ?? [], inPath)), ...Object.fromEntries(given) };
  const findValue = (parameter: string): string | undefined => args[parameter] ?? textOf(values, parameter);
  const resolve = (operation: string): readonly [Method, string] => {
    const [method = '', template = ''] = operation.split(' ');
    const path = template.replaceAll(/\{(\w+)\}/g, (_, parameter: string) => {
      const value = findValue(parameter);
      if (value === undefined || value === '') throw new CommandError(questionFor(parameter, command));
      return encodeURIComponent(value);
    });
    return [toMethod(method), path];
  };
  return {
    ...{ client, values, args, members, warn, output },
    async send(operation, body, timeoutMs) {
      const [method, path] = resolve(operation);
      return client.send(method, path, body, timeoutMs).catch((error: unknown) => {
        throw error instanceof CommandError ? nameOptions(error, command) : error;
      });
    },
    upload: (operation, chunks) => client.upload(resolve(operation)[1], chunks),
    download: (operation) => client.download(resolve(operation)[1]),
  };
}

/** Sends the first operation whose path parameters are given; its other members go to the query or the body. */
function sendFirst(
  name: string,
  { operations, options: accepted = [] }: Command,
  { send, args, values, members }: Invocation,
): Promise<JsonObject> {
  const isGiven = (parameter: string): boolean => (args[parameter] ?? textOf(values, parameter)) !== undefined;
  const operation = operations.find((one) => parametersOf(one).every(isGiven)) ?? operations.at(-1) ?? '';
  if (operation.startsWith('get ')) return send(`${operation}${toQuery(members)}`);
  if (/^(?:put|patch) /.test(operation)) requireChange(members, name.split(' ')[0] ?? name);
  const hasBody = accepted.some((option) => !parametersOf(operation).includes(option));
  return send(operation, hasBody ? members : undefined);
}

function parametersOf(operation: string): string[] {
  return [...operation.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
}

function toMethod(text: string): Method {
  const method = (['GET', 'PUT', 'POST', 'PATCH', 'DELETE'] as const).find((known) => known === text.toUpperCase());
  if (!method) throw new Error(`no command sends ${text}`);
  return method;
}

/** The service names the members of a request. This names the options that set them, which the caller of a command knows. */
function nameOptions({ message, status, cause }: CommandError, { options: accepted = [] }: Command): CommandError {
  const named = message.replaceAll(/(^|; )([a-z_]+(?:\.[a-z_]+)*)((?:\.\d+)?: )/g, (all, before: string, member: string, after: string) => {
    const option = accepted.find((name) => options[name].member === member);
    return option === undefined ? all : `${before}--${option}${after}`;
  });
  return new CommandError(named, status, cause);
}

/** What to say when the value of a path parameter is missing. */
function questionFor(parameter: string, { args = {} }: Command): string {
  const argument = asString(args[parameter]);
  if (argument === null) return `which ${parameter}? add --${parameter} <${parameter}>`;
  const listed: Readonly<Record<string, string>> = {
    prefix: 'which key? name it by its prefix, see gateway keys list',
    batch: 'which batch? see gateway batches list',
    erasure: 'which erasure? see gateway erasures list',
    token: 'which token? name it by its id, see gateway tokens list',
    process: 'which process? see gateway leases list',
    application: 'which application? see gateway applications list',
    project: 'which project? see gateway projects list',
    email: 'which person? name them by e-mail address, see gateway people list',
  };
  return listed[argument] ?? `which ${argument}?`;
}
