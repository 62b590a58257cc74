/**
 * Runs the commands in `command-table.ts`. Each of them sends a few requests to the running service and prints the
 * response as text, or as JSON with `--json`. The exit status is 0, or 1 after an error, which is printed as one line
 * on standard error.
 */
import { CommanderError, Option, Command as Program } from 'commander';
import type { Environment } from '../config/environment.ts';
import { type Command, CommandError, type CommandOutput } from './command.ts';
import { commands } from './command-table.ts';
import { argumentsOf, membersOf, projectOption, runInvocation } from './invocation.ts';
import { notes } from './notes.ts';
import { apiOperations } from './operations.ts';
import { toOptions } from './options.ts';

const tokenSource = `The admin token is taken from GATEWAY_ADMIN_TOKEN, gateway.yaml or <data directory>/admin-token, in this order.`;

/** Returns the exit status. */
export async function runCommand(argv: readonly string[], environment: Environment, given: CommandOutput): Promise<number> {
  const output: CommandOutput = {
    ...given,
    write: (text) => given.write(escapeControls(text)),
    writeError: (text) => given.writeError(escapeControls(text)),
  };
  try {
    await createProgram(environment, output).parseAsync(argv, { from: 'user' });
    return 0;
  } catch (error) {
    // Commander has already printed the help or the error.
    if (error instanceof CommanderError) return error.exitCode;
    if (!(error instanceof CommandError)) throw error;
    output.writeError(`gateway: ${error.message}\n`);
    return 1;
  }
}

const groups = Map.groupBy(Object.entries(commands), ([name]) => name.split(' ', 1)[0] ?? '');

/**
 * Escapes control characters, because many of the texts that we print come from vendors, applications or price tables,
 * and could clear the terminal. The escapes are those of JSON, so the output of `--json` stays valid.
 */
function escapeControls(text: string): string {
  return text.replace(/[^\P{Cc}\t\n]/gu, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

export function isCommandGroup(name: string): boolean {
  return groups.has(name);
}

/** Describes each group of commands that call a running service, in one line. */
export function overview(): string {
  const lines = [...groups].map(([group, members]) => {
    const verbs = members.map(([name, { summary }]) => (name === group ? summary : name.slice(group.length + 1)));
    return `  ${group.padEnd(14)}${verbs.join(', ')}\n`;
  });
  return lines.join('');
}

function createProgram(environment: Environment, output: CommandOutput): Program {
  const program = new Program('gateway')
    .exitOverride()
    .helpCommand(false)
    .showSuggestionAfterError(false)
    .configureOutput({
      writeOut: output.write,
      writeErr: output.writeError,
      outputError: (text, write) => write(text.replace(/^error: /, 'gateway: ')),
    });
  for (const [group, members] of groups) {
    const note = notes[group] === undefined ? '' : `\n${notes[group]}`;
    const isSingle = members.length === 1 && members[0]?.[0] === group;
    const parent = isSingle ? program : program.command(group).helpCommand(false).addHelpText('after', note);
    for (const [name, command] of members) {
      const added = parent.command(name.slice(name.indexOf(' ') + 1)).addHelpText('after', `\n${tokenSource}\n${note}`);
      describe(added, name, command).action(() =>
        runInvocation({ name, command, environment, output, options: added.opts(), given: added.args }),
      );
    }
    if (!isSingle) parent.showHelpAfterError();
  }
  return program;
}

function describe(program: Program, name: string, command: Command): Program {
  program.description(command.summary);
  for (const { parameter, isRequired } of argumentsOf(name, command)) program.argument(isRequired ? `<${parameter}>` : `[${parameter}]`);
  const project = projectOption(name, command);
  const members = membersOf(name, command);
  const own = [...(project ? [project] : []), ...members.flatMap(toOptions), ...(command.options ?? [])];
  if (command.operations.every((address) => apiOperations[address]?.body) && members.some((member) => member.in !== 'query'))
    own.push(new Option('--file <file>', 'file with a JSON body that contains more settings; - reads standard input'));
  for (const option of own) program.addOption(option);
  return program
    .option('--url <address>', 'address of the service (default: the address published in the data directory, or http://HOST:PORT)')
    .option('--json', "print the service's response as JSON");
}
