/** The help texts of the commands, from the table of commands and options. */
import type { Command } from './command.ts';
import { commands } from './command-table.ts';
import { type OptionName, options } from './options.ts';

const common = `Options of every command:
  --url <address>        address of the service; default: the one published in the data directory, else http://HOST:PORT
  --json                 print the service's response as JSON
  -h, --help             print this help

The admin token is taken from GATEWAY_ADMIN_TOKEN, else from gateway.yaml, else from <data directory>/admin-token.
`;

/** One line each for the list of all commands. */
const summaries = {
  projects: 'list, create, show and change projects',
  keys: 'create, list, revoke and rotate virtual keys',
  applications: 'list, show, change and reset settings of applications',
  rules: 'show and replace content rules',
  memory: 'show and change memory settings, export and import memory',
  calls: 'list the latest calls of a project',
  batches: 'list, show, replay and stop learning batches',
  erasures: 'list and show erasures of end users',
  leases: 'list leases on ceilings, release those of dead processes',
  quarantine: 'list records that the database rejected',
  people: 'list, create, show, change and delete people',
  sessions: 'list and end sessions of people',
  tokens: 'list, create and revoke personal tokens',
  members: 'list, add, change and remove members of a project',
  'sign-in-link': 'print a one-time link for signing in to the console',
  audit: 'list changes by people and with the admin token',
  catalog: 'list models and prices, import and remove rows',
  usage: 'show the spend of a project, reprice stored calls',
} as const;

const notes: Readonly<Partial<Record<string, string>>> = {
  batches: `States: running, waiting, retrying, failing, done, failed, stopped.

A batch learns memories from conversations. It is waiting while memory is off or no memory tier has a model, retrying between a failure and
its next attempt, failing after five unusable responses of the model, when it is tried again at most daily, and stopped when an operator gave
it up: with gateway batches stop, or by ending its run in Temporal. A failed or stopped batch needs a replay; its groups that are done stay. RUN is the
address of its run in Temporal's web UI.
`,
  people: `--no-admin and --no-disabled take these back.
`,
  'sign-in-link': `With --email the link signs this person in, and creates the person if the address is new. With --admin alone it creates the account
of a deployment admin, such as the first one. A link works once, within 24 hours. Opening it does not use it: the page has a button.
`,
  leases: `A dead process's leases are released automatically when its journal is recovered, and at the end of their window.
`,
  quarantine: `A record that the database rejects is kept in journal/quarantine of the data directory, and its call is stored without text. Files are deleted
with their subject, and after the deletion period of their project. Each host has its own; --url selects a service on it.
`,
  catalog: `import reads the public price table (model_prices_and_context_window.json of LiteLLM) and activates the rows of your providers' vendors
immediately. They replace built-in rows, but not rows of gateway.yaml. A provider's vendor is matched by the host of its base URL, else by the
provider's name; --as names it where neither matches.
`,
  usage: `reprice recalculates the cost of stored calls that started between --from (inclusive) and --to (exclusive) from their recorded usage:
calls, attempts and the counters of ceilings, in one transaction. Calls of unknown cost get one if there is a price. Repeating it changes
nothing. --models and --project limit it to calls served by these models, and to calls of this project. A date
means its midnight in UTC.

--prices dated uses the prices that were active when the calls started. --prices now uses the current prices, after correcting a wrong one,
and also corrects the price history of that time, so limit it to the affected models with --models; not with --project.

Videos keep the cost of their start. So do calls stored before their usage was recorded in units other than tokens (images, characters,
seconds, searches).
`,
};

export function isCommandGroup(name: string): boolean {
  return Object.hasOwn(summaries, name);
}

/** One line per group of commands that call a running service. */
export const overview = Object.entries(summaries)
  .map(([group, summary]) => `  ${group.padEnd(14)}${summary}\n`)
  .join('');

/** Help of one group of commands, or of all for an unknown name. */
export function usageFor(group: string | undefined): string {
  const groups = group !== undefined && isCommandGroup(group) ? [group] : Object.keys(summaries);
  return `${groups.map(usageOf).join('\n')}\n${common}`;
}

function usageOf(group: string): string {
  const own = Object.entries(commands).filter(([name]) => name.split(' ')[0] === group);
  const lines = own.map(([name, command]) => [lineOf(name, command), command.summary] as const);
  const width = Math.min(64, Math.max(...lines.map(([line]) => line.length)));
  const isClear = (option: OptionName): boolean => option === 'project' && lines.some(([line]) => line.includes('--project'));
  const used = [...new Set(own.flatMap(([, command]) => (command.options ?? []).filter((option) => !isClear(option))))];
  const described = used.map((name) => `  ${written(name).padEnd(30)} ${options[name].help}\n`);
  return [
    'Usage:\n',
    ...lines.map(([line, summary]) => `  ${line.padEnd(width)}   ${summary}\n`),
    ...(described.length === 0 ? [] : ['\nOptions:\n', ...described]),
    ...(notes[group] === undefined ? [] : ['\n', notes[group]]),
  ].join('');
}

/** Such as `gateway keys rotate <prefix> --project <project> [options]`. */
function lineOf(name: string, command: Command): string {
  const { args = {}, options: accepted = [], operations } = command;
  const isRequired = (option: OptionName): boolean => operations.every((operation) => operation.includes(`{${option}}`));
  const required = accepted.filter(isRequired).map(written);
  const others = accepted.filter((option) => !isRequired(option));
  const optional = others.length > 2 ? ['[options]'] : others.map((option) => `[${written(option)}]`);
  return ['gateway', name, ...Object.values(args).map((argument) => `<${argument}>`), ...required, ...optional].join(' ');
}

function written(option: OptionName): string {
  const { value } = options[option];
  return value === undefined ? `--${option}` : `--${option} ${value}`;
}
