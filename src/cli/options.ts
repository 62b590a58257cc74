/**
 * Builds the commands' options and parses their values. An option sets a field of the request, and the schema of the
 * field says which values it accepts.
 */
import { readFile } from 'node:fs/promises';
import { Option } from 'commander';
import { errorMessage } from '../core/error-messages.ts';
import { isObject, type JsonObject } from '../core/json/narrow.ts';
import { parseJson } from '../core/json/parse.ts';
import { repeatsKey } from '../core/json/repeats-key.ts';
import { CommandError } from './command.ts';
import type { Member } from './operations.ts';

/** By default, an option has the same name as its field (see `optionName`). These are the exceptions. */
const names: Readonly<Record<string, string>> = {
  'ceilings.calls': 'calls',
  'ceilings.cost': 'cost',
  'ceilings.rpm': 'rpm',
  'ceilings.tpm': 'tpm',
  'windows.calls': 'calls-window',
  'windows.cost': 'cost-window',
  'cache.enabled': 'cache',
  'cache.ttl_seconds': 'cache-ttl',
  at_least_every_minutes: 'at-least-every',
  delete_conversations_after_days: 'delete-after-days',
  enabled: 'memory',
  expires_at: 'expires',
  expires_in_days: 'days',
  grace_seconds: 'grace',
  image_tiers: 'image-tier',
  recall_budget_tokens: 'recall-budget',
  rules: 'rule',
  speech_tiers: 'speech-tier',
  task_id: 'task',
  tiers: 'tier',
  transcription_tiers: 'transcription-tier',
};

/**
 * The word that users type to set an option to null, or to an empty list if the field can't be null. Options that
 * aren't listed here use the word for their type in `nullWords`.
 */
const words: Readonly<Record<string, string>> = {
  'delete-after-days': 'never',
  'only-senders': 'all',
  'pending-deletion': 'cancel',
  'recall-budget': 'default',
  'required-tags': 'none',
  retired: 'none',
};
const nullWords: Readonly<Record<string, string>> = { boolean: 'default', choice: 'default', list: 'all', number: 'none' };

/** Boolean options without a value. All others take `on` or `off`. */
const switches = ['admin', 'disabled'];

/** With more choices, the column of options would be wider than the terminal, so the description lists them instead. */
const maxChoicesInFlag = 6;

const valueNames: Readonly<Record<string, string>> = {
  boolean: 'on|off',
  json: 'json',
  list: 'a,b',
  lists: 'name=a,b',
  number: 'n',
  time: 'time',
};

export const collect = (text: string, previous: unknown): unknown[] => [...(Array.isArray(previous) ? previous : []), text];

export function optionName(member: string): string {
  return names[member] ?? member.replaceAll(/[._]/g, '-');
}

/** Returns the options for a field. A boolean field of the body gets two, e.g. `--admin` and `--no-admin`. */
export function toOptions(member: Member): Option[] {
  const name = optionName(member.name);
  const { kind, values, description = '' } = member;
  if (isSwitch(member)) {
    const negated = member.in === 'query' ? [] : [new Option(`--no-${name}`, `the opposite of --${name}`)];
    return [new Option(`--${name}`, description), ...negated];
  }
  if (name === 'rule')
    return [
      new Option(
        '--rule <class:place:action>',
        'such as credential:input:block, or expression:output:observe:<RE2>; may be repeated',
      ).argParser(collect),
    ];
  const word = wordFor(member);
  const choices = kind === 'choice' ? (values ?? []) : [];
  const isLong = choices.length > maxChoicesInFlag;
  const value = [choices.length > 0 && !isLong ? choices.join('|') : (valueNames[kind] ?? name), word].filter((part) => part !== undefined);
  const help = [
    description.replaceAll(/\bnull\b/g, word ?? 'null'),
    isLong ? `one of ${choices.join(', ')}` : '',
    kind === 'lists' ? 'may be repeated; use none to remove them all' : '',
  ];
  const option = new Option(`--${name} <${value.join('|')}>`, help.filter((part) => part !== '').join('; '));
  return [kind === 'lists' ? option.argParser(collect) : option];
}

export function parseMember(member: Member, given: unknown): unknown {
  const name = optionName(member.name);
  if (Array.isArray(given)) return name === 'rule' ? given.map(parseRule) : parseLists(given, name);
  const word = wordFor(member);
  if (typeof given !== 'string') return given;
  if (given === word) return member.nullable ? null : [];
  switch (member.kind) {
    case 'boolean':
      if (given !== 'on' && given !== 'off')
        throw new CommandError(`--${name} must be on${word === undefined ? '' : ', off'} or ${word ?? 'off'}`);
      return given === 'on';
    case 'number':
      if (!(member.integer ? /^\d+$/ : /^\d+(\.\d+)?$/).test(given))
        throw new CommandError(`--${name} must be ${describeNumbers(member)}${word === undefined ? '' : `, or ${word}`}`);
      return Number(given);
    case 'list':
      return parseList(given, name, word);
    case 'json':
      return parseJsonText(given, `--${name}${word === undefined ? '' : ` must be ${word}, or`}`);
    default:
      return given;
  }
}

/** Describes the allowed numbers, e.g. as `a whole number from 1 to 1000`. */
function describeNumbers({ integer, minimum = 0, maximum }: Member): string {
  const range = maximum === undefined ? `of at least ${minimum}` : `from ${minimum} to ${maximum}`;
  return integer ? `a whole number ${range}` : `a number ${range}, such as 12.5`;
}

function isSwitch({ kind, name, in: place }: Member): boolean {
  return kind === 'boolean' && (place === 'query' || switches.includes(name));
}

function wordFor({ name, kind, nullable }: Member): string | undefined {
  return words[optionName(name)] ?? (nullable ? nullWords[kind] : undefined);
}

/** Reads a text file, or standard input if the name is `-`. */
export async function readInput(file: string): Promise<string> {
  return readFile(file === '-' ? '/dev/stdin' : file, 'utf8').catch((cause: unknown) => {
    throw new CommandError(`cannot read ${file}: ${errorMessage(cause)}`, null, cause);
  });
}

export async function readBodyFile(file: string): Promise<JsonObject> {
  const body = parseJsonText(await readInput(file), file);
  if (isObject(body)) return body;
  throw new CommandError(`${file} must contain a JSON object`);
}

function parseJsonText(text: string, name: string): unknown {
  const value = parseJson(text);
  if (value === undefined) throw new CommandError(`${name} is not valid JSON`);
  if (repeatsKey(text, value)) throw new CommandError(`${name} contains the same key twice in an object`);
  return value;
}

/** Rejects an empty list, because a shell passes an empty text for a variable that isn't set. */
function parseList(text: string, name: string, word: string | undefined): string[] {
  const list = splitList(text);
  if (list.length > 0) return list;
  throw new CommandError(`--${name} must not be empty${word === undefined ? '' : `; did you mean ${word}?`}`);
}

function splitList(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

function parseLists(texts: readonly unknown[], option: string): JsonObject {
  if (texts.length === 1 && texts[0] === 'none') return {};
  const lists = new Map<string, string[]>();
  for (const text of texts) {
    const [, name, models = ''] = /^([^=]+)=(.*)$/.exec(String(text)) ?? [];
    if (name === undefined) throw new CommandError(`--${option} must be <name>=<model>,<model>, for example standard=openai/gpt-4o`);
    if (lists.has(name)) throw new CommandError(`--${option} was given twice for ${name}; separate the models with commas`);
    lists.set(name, splitList(models));
  }
  return Object.fromEntries(lists);
}

function parseRule(text: unknown): JsonObject {
  const [name, place, action, ...expression] = String(text).split(':');
  if (action === undefined) throw new CommandError('--rule must be <class>:<place>:<action>, for example credential:input:block');
  return { class: name, place, action, ...(expression.length > 0 && { expression: expression.join(':') }) };
}
