/**
 * Loads the API's operations under `/provision`, which scripts/write-openapi.js generates. Derives the commands that
 * call them.
 */
import operations from './api-operations.json' with { type: 'json' };

/** A query or body field. */
export interface Member {
  /** The field's path, e.g. `name`, or `ceilings.calls` in a nested object. */
  readonly name: string;
  readonly kind: string;
  readonly in?: string;
  readonly nullable?: boolean;
  readonly values?: readonly string[];
  readonly description?: string;
}

export interface Operation {
  readonly summary: string;
  /** True if the response contains a list. */
  readonly list?: boolean;
  /** True if the request takes a JSON body. */
  readonly body?: boolean;
  readonly members: readonly Member[];
}

export const apiOperations: Readonly<Record<string, Operation>> = operations;

/** Better names for some commands than what we'd derive from their method and path. */
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
 * Maps each command to the addresses of its operations, such as `get /provision/teams`. Operations with more path
 * parameters come first.
 */
export function operationsByCommand(): ReadonlyMap<string, readonly string[]> {
  const byCommand = Map.groupBy(Object.keys(apiOperations), commandName);
  for (const addresses of byCommand.values()) addresses.sort((one, other) => parametersOf(other).length - parametersOf(one).length);
  return byCommand;
}

/**
 * Derives a command's name. For example, `post /provision/teams/{project}/keys/{prefix}/rotate` becomes `keys rotate`.
 */
function commandName(address: string): string {
  const [method = '', path = ''] = address.split(' ');
  const nouns = path.split('/').filter((segment) => segment !== '' && !segment.startsWith('{'));
  const last = nouns.at(-1) ?? '';
  // Collections are plural. A last segment that isn't, e.g. `rotate`, is a verb.
  const isVerb = nouns.length > 2 && !last.endsWith('s') && nouns.at(-2) !== 'teams';
  const name = isVerb ? `${nouns.at(-2)} ${last}` : `${last} ${verbs[method] ?? (apiOperations[address]?.list ? 'list' : 'show')}`;
  return renamed[name] ?? name;
}

export function parametersOf(address: string): string[] {
  return [...address.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
}
