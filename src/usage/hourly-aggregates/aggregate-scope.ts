/** Decides which hourly aggregates can answer a request. */
import { type CallFilter, namesOf } from '../analytics/call-filter.ts';
import type { Group } from '../analytics/figures-request.ts';

/** The aggregates by `provider` count attempts, and all others count calls. */
export type AggregateScope = 'project' | 'key' | 'source' | 'agent' | 'provider';

const owners = ['key', 'source', 'agent', 'provider'] as const;
/** We can filter and group by these in every scope. The values are the columns for it. */
const everywhere = {
  ...{ model: 'model', status: 'status', code: 'code', outcome: 'outcome', result: 'outcome' },
  ...{ not_model: 'model', not_status: 'status', not_code: 'code' },
} as const;
/** The `project` scope also supports these. */
const ofProject = { ...everywhere, route: 'route', cache: 'cache', failover: 'failed_over', price: 'priced' } as const;

/** Returns a scope whose aggregates support the group and all of the filters, or null if there's none. */
export function aggregateScopeOf(filter: CallFilter, group: Group | null): AggregateScope | null {
  // Only the aggregates by provider know which models we've tried. But they count attempts, and this filter is about
  // calls.
  if (filter.attempted !== undefined) return null;
  const names = [...new Set([...namesOf(filter), ...(group === null ? [] : group === 'attempted' ? ['provider'] : [group])])];
  const [scope = 'project', ...others] = owners.filter((owner) => names.includes(owner));
  const known = scope === 'project' ? ofProject : everywhere;
  return others.length === 0 && names.every((name) => name === scope || Object.hasOwn(known, name)) ? scope : null;
}

/**
 * Returns a scope with the filters that its aggregates support. Since this leaves out the other filters, it matches
 * more calls.
 */
export function aggregateFilterOf(filter: CallFilter): { readonly scope: AggregateScope; readonly filter: CallFilter } {
  const scope = owners.find((owner) => owner !== 'provider' && filter[owner] !== undefined) ?? 'project';
  const known = scope === 'project' ? ofProject : everywhere;
  const kept = Object.entries(filter).filter(([name]) => name === scope || Object.hasOwn(known, name));
  return { scope, filter: Object.fromEntries(kept) };
}
