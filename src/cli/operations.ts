/**
 * Loads the operations of the API under `/provision`, which scripts/write-openapi.js generates, and derives the
 * commands that call them.
 */
import operations from './api-operations.json' with { type: 'json' };

/** A member of the query or the body of a request. */
export interface Member {
  /** The path of the member, such as `name`, or `ceilings.calls` within a nested object. */
  readonly name: string;
  readonly kind: string;
  readonly in?: string;
  readonly nullable?: boolean;
  readonly values?: readonly string[];
  readonly description?: string;
}

export interface Operation {
  readonly summary: string;
  /** True if the response is a list. */
  readonly list?: boolean;
  /** True if the request has a JSON body. */
  readonly body?: boolean;
  readonly members: readonly Member[];
}

export const apiOperations: Readonly<Record<string, Operation>> = operations;

/** Commands whose name isn't the one that we derive from the method and the path. */
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
 * Returns the addresses of the operations by command. The operations of a command are sorted so that the one with the
 * most path parameters comes first.
 */
export function operationsByCommand(): ReadonlyMap<string, readonly string[]> {
  const byCommand = Map.groupBy(Object.keys(apiOperations), commandName);
  for (const addresses of byCommand.values()) addresses.sort((one, other) => parametersOf(other).length - parametersOf(one).length);
  return byCommand;
}

/**
 * Derives the name of a command. For example, `post /provision/teams/{project}/keys/{prefix}/rotate` becomes `keys
 * rotate`.
 */
function commandName(address: string): string {
  const [method = '', path = ''] = address.split(' ');
  const nouns = path.split('/').filter((segment) => segment !== '' && !segment.startsWith('{'));
  const last = nouns.at(-1) ?? '';
  // Collections have plural names, so a last segment that isn't plural is a verb, such as `rotate`.
  const isVerb = nouns.length > 2 && !last.endsWith('s') && nouns.at(-2) !== 'teams';
  const name = isVerb ? `${nouns.at(-2)} ${last}` : `${last} ${verbs[method] ?? (apiOperations[address]?.list ? 'list' : 'show')}`;
  return renamed[name] ?? name;
}

export function parametersOf(address: string): string[] {
  return [...address.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
}
