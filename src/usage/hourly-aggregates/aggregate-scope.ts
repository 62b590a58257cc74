import { type CallFilter, namesOf } from '../analytics/call-filter.ts';
import type { Group } from '../analytics/figures-request.ts';

/** Aggregates by `provider` count attempts. All other aggregates count calls. */
export type AggregateScope = 'project' | 'key' | 'source' | 'agent' | 'provider';

const owners = ['key', 'source', 'agent', 'provider'] as const;
/** Maps the filters and groups that every scope supports to their columns. */
const everywhere = {
  ...{ model: 'model', status: 'status', code: 'code', outcome: 'outcome', result: 'outcome' },
  ...{ not_model: 'model', not_status: 'status', not_code: 'code' },
} as const;
const ofProject = { ...everywhere, route: 'route', cache: 'cache', failover: 'failed_over', price: 'priced' } as const;

/**
 * Chooses the stored aggregates that can answer a query, i.e. those that record both the attribute to group by and
 * every attribute to filter by. Returns null if no scope has all of them.
 */
export function aggregateScopeOf(filter: CallFilter, group: Group | null): AggregateScope | null {
  // The filter `attempted` selects calls. Only the aggregates by provider contain the models that were attempted, but
  // since these count attempts, we can't use them here.
  if (filter.attempted !== undefined) return null;
  const names = [...new Set([...namesOf(filter), ...(group === null ? [] : group === 'attempted' ? ['provider'] : [group])])];
  const [scope = 'project', ...others] = owners.filter((owner) => names.includes(owner));
  const known = scope === 'project' ? ofProject : everywhere;
  return others.length === 0 && names.every((name) => name === scope || Object.hasOwn(known, name)) ? scope : null;
}

/**
 * Returns a scope, and those filters that its aggregates support. We leave out all other filters, so the result may
 * match more calls than `filter`.
 */
export function aggregateFilterOf(filter: CallFilter): { readonly scope: AggregateScope; readonly filter: CallFilter } {
  const scope = owners.find((owner) => owner !== 'provider' && filter[owner] !== undefined) ?? 'project';
  const known = scope === 'project' ? ofProject : everywhere;
  const kept = Object.entries(filter).filter(([name]) => name === scope || Object.hasOwn(known, name));
  return { scope, filter: Object.fromEntries(kept) };
}
