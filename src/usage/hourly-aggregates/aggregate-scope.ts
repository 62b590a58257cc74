/** Decides which hourly aggregates can answer a request. */
import { type CallFilter, namesOf } from '../analytics/call-filter.ts';
import type { Group } from '../analytics/figures-request.ts';

/** `provider` aggregates are about attempts, all others about calls. */
export type AggregateScope = 'project' | 'key' | 'source' | 'agent' | 'provider';

const owners = ['key', 'source', 'agent', 'provider'] as const;
/** The filters and groups that every scope supports, with the columns that they use. */
const everywhere = {
  ...{ model: 'model', status: 'status', code: 'code', outcome: 'outcome', result: 'outcome' },
  ...{ not_model: 'model', not_status: 'status', not_code: 'code' },
} as const;
/** Filters and groups that the `project` scope supports. */
const ofProject = { ...everywhere, route: 'route', cache: 'cache', failover: 'failed_over', price: 'priced' } as const;

/** Returns a scope whose aggregates support all of the filters and the group. Null if there is none. */
export function aggregateScopeOf(filter: CallFilter, group: Group | null): AggregateScope | null {
  // Only the aggregates by provider know which models were tried. But they count attempts, while this filter selects
  // calls.
  if (filter.attempted !== undefined) return null;
  const names = [...new Set([...namesOf(filter), ...(group === null ? [] : group === 'attempted' ? ['provider'] : [group])])];
  const [scope = 'project', ...others] = owners.filter((owner) => names.includes(owner));
  const known = scope === 'project' ? ofProject : everywhere;
  return others.length === 0 && names.every((name) => name === scope || Object.hasOwn(known, name)) ? scope : null;
}

/**
 * Returns the scope and those filters that the scope's aggregates support. Without the other filters, additional calls
 * may match.
 */
export function aggregateFilterOf(filter: CallFilter): { readonly scope: AggregateScope; readonly filter: CallFilter } {
  const scope = owners.find((owner) => owner !== 'provider' && filter[owner] !== undefined) ?? 'project';
  const known = scope === 'project' ? ofProject : everywhere;
  const kept = Object.entries(filter).filter(([name]) => name === scope || Object.hasOwn(known, name));
  return { scope, filter: Object.fromEntries(kept) };
}
