/** The options of the commands: how each is written, and which member of the request it sets. */
import { readFile } from 'node:fs/promises';
import { errorMessage } from '../core/error-messages.ts';
import { isObject, type JsonObject, parseJson } from '../core/json/narrow.ts';
import { CommandError } from './service-client.ts';

interface Option {
  /** Shown in the help. Absent: a switch, `--admin` or `--no-admin`. */
  readonly value?: string;
  readonly help: string;
  /** Member of the body or the query, such as `ceilings.calls`. Absent: the command handles the option itself. */
  readonly member?: string;
  /** The value of the member. Throws CommandError. */
  readonly parse?: (text: string) => unknown;
  /** The option may be repeated; the values of all are merged into one object or list. */
  readonly merge?: (texts: readonly string[]) => unknown;
}

const window = { value: 'day|month|total', help: 'default: month' };
const amount = (name: string, none: string) => (text: string) => (text === none ? null : parseNumber(text, name));
const list = (text: string): string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
const listOrAll = (text: string): string[] | null => (text === 'all' ? null : list(text));
const tier = (name: string, member: string): Option => ({
  ...{ value: '<name>=<a,b>', help: 'a tier and its models in order; repeat it; replaces all tiers; none removes them', member },
  merge: (texts) => parseTiers(texts, name),
});

const table = {
  project: { value: '<project>', help: 'slug of the project', member: 'project' },
  name: { value: '<name>', help: 'display name', member: 'name' },
  providers: { value: '<a,b>|all', help: 'providers that the project may use', member: 'providers', parse: listOrAll },
  tier: tier('tier', 'tiers'),
  'image-tier': tier('image-tier', 'image_tiers'),
  'speech-tier': tier('speech-tier', 'speech_tiers'),
  'transcription-tier': tier('transcription-tier', 'transcription_tiers'),
  retired: { value: '<a,b>|none', help: 'models and providers that are called last', member: 'retired', parse: (text) => listOrNone(text) },
  'catalog-fill': {
    ...{ value: 'on|off|default', help: 'substitute catalog models when no provider serves a tier', member: 'catalog_fill' },
    parse: (text) => (text === 'default' ? null : parseSwitch(text, 'catalog-fill', 'on, off or default')),
  },
  'may-call': { value: 'on|off', help: 'off refuses all calls', member: 'may_call', parse: (text) => parseSwitch(text, 'may-call') },
  'monthly-cap': { value: '<usd>|none', help: 'spend of a calendar month', member: 'monthly_cap', parse: amount('monthly-cap', 'none') },
  'on-budget-store-down': {
    ...{ value: 'allow|refuse|default', help: 'calls whose ceilings cannot be checked in an outage of the database' },
    ...{ member: 'on_budget_store_down', parse: (text) => (text === 'default' ? null : text) },
  },
  cache: { value: 'on|off', help: 'the response cache', member: 'cache.enabled', parse: (text) => parseSwitch(text, 'cache') },
  'cache-ttl': {
    ...{ value: '<seconds>', help: 'how long a response stays in the cache', member: 'cache.ttl_seconds' },
    parse: (text) => parseNumber(text, 'cache-ttl'),
  },
  'cache-sampled': {
    ...{ value: 'on|off', help: 'the response cache also answers calls with a temperature above 0, or with n above 1' },
    ...{ member: 'cache_sampled', parse: (text) => parseSwitch(text, 'cache-sampled') },
  },
  'error-codes': { value: 'gateway|vendor', help: 'whose code an error has where the vendor names one', member: 'error_codes' },
  'time-zone': { value: '<name>', help: 'zone of reports, for example Europe/Berlin', member: 'time_zone' },
  models: { value: '<a,b>|all', help: 'models and tiers', member: 'models', parse: listOrAll },
  calls: { value: '<n>|none', help: 'number of calls per window', member: 'ceilings.calls', parse: amount('calls', 'none') },
  'calls-window': { ...window, member: 'windows.calls' },
  cost: { value: '<usd>|none', help: 'cost of calls per window', member: 'ceilings.cost', parse: amount('cost', 'none') },
  'cost-window': { ...window, member: 'windows.cost' },
  rpm: { value: '<n>|none', help: 'calls per minute', member: 'ceilings.rpm', parse: amount('rpm', 'none') },
  tpm: { value: '<n>|none', help: 'tokens per minute', member: 'ceilings.tpm', parse: amount('tpm', 'none') },
  'default-max-output-tokens': {
    ...{ value: '<n>|none', help: 'limit of the output that is sent with calls that set none', member: 'default_max_output_tokens' },
    parse: amount('default-max-output-tokens', 'none'),
  },
  expires: { value: '<time>', help: 'RFC 3339, for example 2027-01-01T00:00:00Z', member: 'expires_at' },
  grace: {
    ...{ value: '<seconds>', help: 'how long the old key stays valid; default: 0', member: 'grace_seconds' },
    parse: (text) => parseNumber(text, 'grace'),
  },
  rule: {
    ...{ value: '<class>:<place>:<action>', help: 'such as credential:input:block, or expression:output:observe:<RE2>; repeat it' },
    ...{ member: 'rules', merge: (texts) => texts.map(parseRule) },
  },
  memory: { value: 'on|off', help: 'whether the project has memory', member: 'enabled', parse: (text) => parseSwitch(text, 'memory') },
  'only-senders': {
    ...{ value: '<a,b>|all', help: 'applications whose calls are recorded', member: 'only_senders' },
    parse: (text) => listOrAll(text) ?? [],
  },
  'delete-after-days': {
    ...{ value: '<days>|never', help: 'when conversations are deleted', member: 'delete_conversations_after_days' },
    parse: amount('delete-after-days', 'never'),
  },
  'delete-unlearned': {
    ...{ value: 'on|off', help: 'whether conversations are deleted that memory has not learned from', member: 'delete_unlearned' },
    parse: (text) => parseSwitch(text, 'delete-unlearned'),
  },
  'pending-deletion': {
    ...{ value: 'cancel', help: 'cancels a shorter deletion period that is not in effect yet', member: 'pending_deletion' },
    parse(text) {
      if (text !== 'cancel') throw new CommandError('--pending-deletion must be cancel');
      return null;
    },
  },
  'batch-of': { value: '<n>', help: 'messages per batch', member: 'batch_of', parse: (text) => parseNumber(text, 'batch-of') },
  'at-least-every': {
    ...{ value: '<minutes>', help: 'longest wait of a message for its batch', member: 'at_least_every_minutes' },
    parse: (text) => parseNumber(text, 'at-least-every'),
  },
  subject: { value: '<subject>', help: 'only of this end user', member: 'subject' },
  output: { value: '<file>', help: 'the file to write; default: standard output' },
  input: { value: '<file>', help: 'the file to import; default: standard input' },
  format: { value: 'gateway|mem0|list', help: 'default: gateway, the format of memory export', member: 'format' },
  'restore-erased': { help: 'import also what was erased after the export', member: 'restore_erased' },
  'dry-run': { help: 'count what an import would do', member: 'dry_run' },
  failed: { help: 'only calls in which an attempt failed, with the reasons', member: 'failed' },
  limit: { value: '<n>', help: 'number of rows', member: 'limit' },
  before: { value: '<id>', help: 'only rows older than this one', member: 'before' },
  task: { value: '<id>', help: 'only calls of this task', member: 'task_id' },
  source: { value: '<application>', help: 'only calls of this application', member: 'source' },
  state: { value: '<state>', help: 'only batches in this state', member: 'state' },
  from: { value: '<time>', help: 'RFC 3339, for example 2026-11-01T00:00:00Z; inclusive', member: 'from' },
  to: { value: '<time>', help: 'exclusive', member: 'to' },
  prices: { value: 'dated|now', help: 'prices of the time of the calls (default), or current ones', member: 'prices' },
  as: { value: '<name in the table>=<provider>', help: "the table's name of a provider's vendor; repeat it", merge: (texts) => texts },
  role: { value: 'owner|member', help: 'role in the project', member: 'role' },
  email: { value: '<address>', help: 'e-mail address of the person', member: 'email' },
  admin: { help: 'deployment admin: owner of every project, who also manages people, projects and prices', member: 'admin' },
  disabled: { help: 'a disabled person cannot sign in; their sessions end', member: 'disabled' },
  'password-file': { value: '<file>', help: 'its first line is the password; - reads standard input; default: a sign-in link' },
  scopes: {
    ...{ value: '<a,b>', help: 'settings:read, settings:write, memory:read, usage:read', member: 'scopes' },
    parse: list,
  },
  days: {
    value: '<n>',
    help: 'until the token expires, at most 90',
    member: 'expires_in_days',
    parse: (text) => parseNumber(text, 'days'),
  },
  after: { value: '<address>', help: 'only people after this one', member: 'after' },
  unconfirmed: { help: 'addresses that owners added to their projects and nobody has confirmed', member: 'unconfirmed' },
  person: { value: '<id or address>', help: 'only changes by this person', member: 'person' },
  action: { value: '<action>', help: 'only this action, for example key.issue', member: 'action' },
  file: { value: '<file>', help: 'a JSON body with further settings; - reads standard input' },
} as const satisfies Readonly<Record<string, Option>>;

export type OptionName = keyof typeof table;
export const options: Readonly<Record<OptionName, Option>> = table;

/** Values as given on the command line. */
export type OptionValues = Readonly<Partial<Record<string, string | boolean | readonly string[]>>>;

export function isOption(name: string): name is OptionName {
  return Object.hasOwn(table, name);
}

/** The text of an option that was given once. */
export function textOf(values: OptionValues, name: string): string | undefined {
  const value = values[name];
  return typeof value === 'string' ? value : undefined;
}

/** The members that the given options set, without those in `except`. Merged over the object in `--file`. */
export async function readMembers(values: OptionValues, names: readonly OptionName[], except: readonly string[]): Promise<JsonObject> {
  const members: Record<string, unknown> = { ...(await readBodyFile(textOf(values, 'file'))) };
  for (const name of names) {
    const { member, parse, merge } = options[name];
    const value = values[name];
    if (member === undefined || value === undefined || except.includes(name)) continue;
    const parsed = Array.isArray(value) ? merge?.(value) : parse ? parse(String(value)) : value;
    const [outer = '', inner] = member.split('.');
    members[outer] = inner === undefined ? parsed : { ...(isObject(members[outer]) ? members[outer] : {}), [inner]: parsed };
  }
  return members;
}

/** The text of a file, or of standard input for `-`. */
export async function readInput(file: string): Promise<string> {
  return readFile(file === '-' ? '/dev/stdin' : file, 'utf8').catch((cause: unknown) => {
    throw new CommandError(`${file} cannot be read: ${errorMessage(cause)}`, null, cause);
  });
}

/** The members as a query with its question mark; empty without any. */
export function toQuery(members: JsonObject): string {
  const entries = Object.entries(members).map(([name, value]): [string, string] => [name, String(value)]);
  return entries.length === 0 ? '' : `?${new URLSearchParams(entries)}`;
}

async function readBodyFile(file: string | undefined): Promise<JsonObject> {
  if (file === undefined) return {};
  const text = await readInput(file);
  try {
    const body = parseJson(text);
    if (isObject(body)) return body;
  } catch (cause) {
    throw new CommandError(`${file} is not valid JSON`, null, cause);
  }
  throw new CommandError(`${file} must hold a JSON object`);
}

function parseNumber(text: string, name: string): number {
  if (!/^\d+(\.\d+)?$/.test(text)) throw new CommandError(`--${name} must be a number`);
  return Number(text);
}

function parseSwitch(text: string, name: string, values = 'on or off'): boolean {
  if (text !== 'on' && text !== 'off') throw new CommandError(`--${name} must be ${values}`);
  return text === 'on';
}

function listOrNone(text: string): string[] {
  return text === 'none' ? [] : list(text);
}

function parseTiers(texts: readonly string[], option: string): JsonObject {
  if (texts.length === 1 && texts[0] === 'none') return {};
  return Object.fromEntries(
    texts.map((text) => {
      const [, name, models = ''] = /^([^=]+)=(.*)$/.exec(text) ?? [];
      if (name === undefined) throw new CommandError(`--${option} must be <name>=<model>,<model>, for example standard=openai/gpt-4o`);
      return [name, list(models)];
    }),
  );
}

function parseRule(text: string): JsonObject {
  const [name, place, action, ...expression] = text.split(':');
  if (action === undefined) throw new CommandError('--rule must be <class>:<place>:<action>, for example credential:input:block');
  return { class: name, place, action, ...(expression.length > 0 && { expression: expression.join(':') }) };
}
