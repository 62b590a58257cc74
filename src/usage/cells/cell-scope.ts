/** Which cells have what a request is about. Pure. */
import { type CallFilter, namesOf } from '../analytics/call-filter.ts';
import type { Group } from '../analytics/figures-request.ts';

/** Attempts of a provider, or calls of all others. */
export type CellScope = 'project' | 'key' | 'source' | 'agent' | 'provider';

const owners = ['key', 'source', 'agent', 'provider'] as const;
/** Filters and groups of every scope, with their columns. */
const everywhere = { model: 'model', status: 'status', code: 'code', outcome: 'outcome', result: 'outcome' } as const;
/** Of the scope `project` too. */
const ofProject = { ...everywhere, route: 'route', cache: 'cache', failover: 'failed_over', price: 'priced' } as const;

/** Null when no scope has all of them together. */
export function cellScopeOf(filter: CallFilter, group: Group | null): CellScope | null {
  const names = [...new Set([...namesOf(filter), ...(group === null ? [] : [group])])];
  const [scope = 'project', ...others] = owners.filter((owner) => names.includes(owner));
  const known = scope === 'project' ? ofProject : everywhere;
  return others.length === 0 && names.every((name) => name === scope || Object.hasOwn(known, name)) ? scope : null;
}

/** The filters that the cells of one scope have together; calls that match all filters match these. */
export function cellFilterOf(filter: CallFilter): { readonly scope: CellScope; readonly filter: CallFilter } {
  const scope = owners.find((owner) => owner !== 'provider' && filter[owner] !== undefined) ?? 'project';
  const known = scope === 'project' ? ofProject : everywhere;
  const kept = Object.entries(filter).filter(([name]) => name === scope || Object.hasOwn(known, name));
  return { scope, filter: Object.fromEntries(kept) };
}
