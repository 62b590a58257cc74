/** Decides which hourly aggregates can answer a request. */
import { type CallFilter, namesOf } from '../analytics/call-filter.ts';
import type { Group } from '../analytics/figures-request.ts';

/** The aggregates of the scope `provider` count attempts. All others count calls. */
export type AggregateScope = 'project' | 'key' | 'source' | 'agent' | 'provider';

const owners = ['key', 'source', 'agent', 'provider'] as const;
/** Filters and groups that work in every scope, with their columns. */
const everywhere = {
  ...{ model: 'model', status: 'status', code: 'code', outcome: 'outcome', result: 'outcome' },
  ...{ not_model: 'model', not_status: 'status', not_code: 'code' },
} as const;
/** Filters and groups that work in the scope `project`. */
const ofProject = { ...everywhere, route: 'route', cache: 'cache', failover: 'failed_over', price: 'priced' } as const;

/** Returns the scope whose aggregates have all of the filters and the group, or null if there is no such scope. */
export function aggregateScopeOf(filter: CallFilter, group: Group | null): AggregateScope | null {
  // The filter is about calls, and the aggregates that have the model of an attempt are about attempts.
  if (filter.attempted !== undefined) return null;
  const names = [...new Set([...namesOf(filter), ...(group === null ? [] : group === 'attempted' ? ['provider'] : [group])])];
  const [scope = 'project', ...others] = owners.filter((owner) => names.includes(owner));
  const known = scope === 'project' ? ofProject : everywhere;
  return others.length === 0 && names.every((name) => name === scope || Object.hasOwn(known, name)) ? scope : null;
}

/**
 * Returns the filters that the aggregates of one scope support. Calls that match all filters also match these, but not
 * the other way round.
 */
export function aggregateFilterOf(filter: CallFilter): { readonly scope: AggregateScope; readonly filter: CallFilter } {
  const scope = owners.find((owner) => owner !== 'provider' && filter[owner] !== undefined) ?? 'project';
  const known = scope === 'project' ? ofProject : everywhere;
  const kept = Object.entries(filter).filter(([name]) => name === scope || Object.hasOwn(known, name));
  return { scope, filter: Object.fromEntries(kept) };
}
