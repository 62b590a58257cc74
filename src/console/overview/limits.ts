import type { BreakerReport } from '../../failover/breaker.ts';
import { formatAmount } from '../frame/ceilings.ts';
import { badge, formatCount, formatTimeIn, meter, table, time } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import { healthBadge, type ProviderHealth } from '../frame/provider-health.ts';
import type { ConsoleContext } from '../frame/route.ts';
import { rangeQuery } from '../frame/time-range.ts';
import type { CeilingUse } from './ceilings.ts';

const shown = 12;

const windowNames = { minute: 'per minute', day: 'per day', month: 'per month', total: 'in total' } as const;

export function ceilingTable(context: ConsoleContext, ceilings: readonly CeilingUse[]): Html {
  const { zone } = context;
  const links = html`<a href="${projectPath(context, '/keys')}">keys</a> and <a href="${projectPath(context, '/applications')}">applications</a>`;
  const more = ceilings.length > shown ? html`<p class="hint">${ceilings.length - shown} more ceilings: see ${links}.</p>` : '';
  return html`${table<CeilingUse>({
    caption: ceilings.length === 0 ? 'No ceilings' : 'Ceilings with their use',
    rows: ceilings.slice(0, shown),
    empty: html`Nothing limits what the project spends. Set a monthly cap in the settings of the project, or limits for ${links}.`,
    columns: [
      { label: 'Holder', value: (row) => holderOf(context, row) },
      { label: 'Ceiling', value: ({ counter: { key } }) => `${key.ceiling === 'cost' ? 'Cost' : 'Calls'} ${windowNames[key.window]}` },
      { label: 'Use', value: useOf },
      {
        label: 'Resets',
        value: ({ counter: { key } }) => (key.end === null ? 'Never' : time(key.end, zone, 'minute')),
        wideOnly: true,
      },
      { label: 'Forecast', value: (row) => forecastOf(row, zone) },
    ],
  })}${more}`;
}

function holderOf(context: ConsoleContext, { counter: { key }, holder }: CeilingUse): Html | string {
  switch (key.scope) {
    case 'project':
      return 'Project';
    case 'key':
      return html`<a href="${projectPath(context, '/keys')}">${holder}</a> <span class="muted">key</span>`;
    case 'source':
      return html`<a href="${projectPath(context, '/calls', { ...rangeQuery(context), source: holder })}">${holder}</a> <span class="muted">application</span>`;
  }
}

function useOf({ counter: { key, limit }, used, reserved, holder }: CeilingUse): Html {
  const format = (amount: number): string => formatAmount(key.ceiling, amount);
  if (used === null) return html`<span class="muted">Not counted yet; limit ${format(limit)}</span>`;
  const running = reserved > 0 ? `, up to ${format(reserved)} running` : '';
  return meter({ label: `${holder}: ${key.ceiling}`, value: used, max: limit, text: `${format(used)} of ${format(limit)}${running}` });
}

function forecastOf({ forecast }: CeilingUse, zone: string): Html | string {
  switch (forecast.kind) {
    case 'reached':
      return badge('reached', 'bad');
    case 'at':
      return html`${badge('expected', 'warning')} ${formatTimeIn(forecast.at, zone, 'minute')}`;
    case 'not_in_window':
      return 'Not before it resets';
    case 'none':
      return html`<span class="muted">Not in sight</span>`;
  }
}

export function breakerTable(
  context: ConsoleContext,
  breakers: readonly BreakerReport[],
  healthOf: (provider: string) => ProviderHealth,
): Html {
  const { zone } = context;
  const states = { closed: badge('closed'), open: badge('open', 'bad'), half_open: badge('probing', 'warning') } as const;
  return table<BreakerReport>({
    caption: breakers.length === 0 ? 'No providers' : 'Providers',
    rows: breakers,
    empty: 'The project may not use any provider that is configured. Allow some under Routing.',
    columns: [
      { label: 'Provider', value: ({ provider }) => provider },
      // If the provider has a pool, `provider` is `<name>/<member>`.
      { label: 'Health', value: ({ provider }) => healthBadge(healthOf(provider.split('/', 1)[0] ?? '')) },
      {
        label: 'Breaker of the project',
        value: ({ state, cooling_until: coolingUntil = null }) =>
          state === 'closed' && coolingUntil !== null ? badge('cooldown', 'warning') : states[state],
      },
      { label: 'Failures in a row', align: 'end', value: ({ failures }) => formatCount(failures) },
      { label: 'Opened', value: ({ opened_at }) => time(opened_at === null ? null : new Date(opened_at), zone), wideOnly: true },
      { label: 'Next probe', value: ({ retry_at }) => time(retry_at === null ? null : new Date(retry_at), zone) },
      {
        label: 'Cooldown until',
        value: ({ cooling_until: coolingUntil = null }) => time(coolingUntil === null ? null : new Date(coolingUntil), zone),
        wideOnly: true,
      },
    ],
  });
}
