/**
 * Loads the API's operations under `/provision`, which scripts/write-openapi.js has generated, and derives the names of
 * the commands that call them.
 */
import operations from './api-operations.json' with { type: 'json' };

export interface Member {
  /** The path of the field, e.g. `name`, or `ceilings.calls` if it's inside an object. */
  readonly name: string;
  readonly kind: string;
  readonly in?: string;
  readonly nullable?: boolean;
  readonly integer?: boolean;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly values?: readonly string[];
  readonly description?: string;
}

export interface Operation {
  readonly summary: string;
  readonly list?: boolean;
  readonly body?: boolean;
  readonly members: readonly Member[];
}

export const apiOperations: Readonly<Record<string, Operation>> = operations;

/** Overrides the names that we derive from method and path, for commands where they aren't good enough. */
const renamed: Readonly<Record<string, string>> = {
  'applications delete': 'applications reset',
  'audit list': 'audit',
  'calls list': 'calls',
  'calls show': 'calls',
  'keys delete': 'keys revoke',
  'hits list': 'rules hits',
  'leases delete': 'leases release',
  'members delete': 'members remove',
  'refused-calls list': 'calls',
  'refused-calls show': 'calls',
  'sessions delete': 'sessions revoke',
  'sign-in-links create': 'sign-in-link',
  'status show': 'status',
  'teams list': 'projects list',
  'teams set': 'projects set',
  'teams show': 'projects show',
  'tokens delete': 'tokens revoke',
};

const verbs: Readonly<Record<string, string>> = { post: 'create', put: 'set', patch: 'set', delete: 'delete' };

/**
 * Groups the API's operations, e.g. `get /provision/teams`, by command. Operations with the most path parameters come
 * first.
 */
export function operationsByCommand(): ReadonlyMap<string, readonly string[]> {
  const byCommand = Map.groupBy(Object.keys(apiOperations), commandName);
  for (const addresses of byCommand.values()) addresses.sort((one, other) => parametersOf(other).length - parametersOf(one).length);
  return byCommand;
}

/**
 * Derives the name of a command from its operation, e.g. `keys rotate` from `post
 * /provision/teams/{project}/keys/{prefix}/rotate`.
 */
function commandName(address: string): string {
  const [method = '', path = ''] = address.split(' ');
  const nouns = path.split('/').filter((segment) => segment !== '' && !segment.startsWith('{'));
  const last = nouns.at(-1) ?? '';
  // Collections have plural names. If the last segment is singular, it's a verb, e.g. `rotate`.
  const isVerb = nouns.length > 2 && !last.endsWith('s') && nouns.at(-2) !== 'teams';
  const name = isVerb ? `${nouns.at(-2)} ${last}` : `${last} ${verbs[method] ?? (apiOperations[address]?.list ? 'list' : 'show')}`;
  return renamed[name] ?? name;
}

export function parametersOf(address: string): string[] {
  return [...address.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
}
