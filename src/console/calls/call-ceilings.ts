/** Shows the ceilings that a call counts against, and how much of each is used. */
import type { CounterUsage } from '../../ceilings/counter-usage.ts';
import { countersFor, type LimitedCounter } from '../../ceilings/counters.ts';
import { type KeyRecord, noCeilings } from '../../keys/key-record.ts';
import type { Project } from '../../projects/projects.ts';
import type { CallDetail } from '../../usage/analytics/call-detail.ts';
import { formatAmount } from '../frame/ceilings.ts';
import { badge, formatTimeIn, meter, notice, section, table } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import type { ConsoleContext } from '../frame/route.ts';

/**
 * Returns the current ceilings of the call's key, application and project, for the windows in which the call started.
 */
export function ceilingsOf(project: Project, { source, keyId, startedAt }: CallDetail, key: KeyRecord | null): readonly LimitedCounter[] {
  const { quotaKeyId = keyId, ceilings = noCeilings } = key ?? {};
  return countersFor({ projectId: project.id, keyId: quotaKeyId, source, key: ceilings, project: project.settings }, startedAt.getTime());
}

interface CountedCeiling {
  readonly counter: LimitedCounter;
  /** Null if the counter was deleted or nothing has been counted yet. */
  readonly usage: CounterUsage | null;
}

const names = { calls: 'Calls', cost: 'Cost', rpm: 'Calls', tpm: 'Tokens' } as const;
const windows = { minute: 'minute', day: 'day', month: 'month', total: 'all time' } as const;
/** Maps the error code of a refused call to the kind of ceiling that refused it. */
const refusals: Readonly<Record<string, LimitedCounter['key']['scope']>> = {
  tenant_capped: 'key',
  source_capped: 'source',
  credits_exhausted: 'project',
};

export function ceilingsSection(context: ConsoleContext, call: CallDetail, ceilings: readonly CountedCeiling[]): Html {
  const refused = call.code === null ? undefined : refusals[call.code];
  const note = call.unmetered
    ? notice(
        'The call was admitted without checking its ceilings, because the database was unavailable. It was counted when it was stored.',
        'warning',
      )
    : call.vendorCalled
      ? ''
      : html`<p class="hint">This call does not count against ceilings on calls, because no vendor was called.</p>`;
  return section(
    'Ceilings',
    html`${note}${table<CountedCeiling>({
      caption: 'Ceilings',
      rows: ceilings,
      empty: 'No ceiling applies to this key, application or project.',
      columns: [
        {
          label: 'Holder',
          value: ({ counter: { key } }) => html`${holderOf(key)}${key.scope === refused ? html` ${badge('refused the call', 'bad')}` : ''}`,
        },
        { label: 'Ceiling', value: ({ counter: { key, limit } }) => `${names[key.ceiling]}, ${formatAmount(key.ceiling, limit)}` },
        { label: 'Window', value: ({ counter: { key } }) => windowOf(key, context.zone) },
        { label: 'Used in this window', value: useOf },
      ],
    })}`,
    { hint: 'These are the current ceilings. Days and months are in UTC.' },
  );
}

function holderOf({ scope, scopeId }: LimitedCounter['key']): string {
  return scope === 'project' ? 'Project' : scope === 'key' ? 'Key' : `Application ${scopeId}`;
}

function windowOf({ window, start, end }: LimitedCounter['key'], zone: string): Html {
  if (end === null) return html`${windows[window]}`;
  const day = formatTimeIn(start, 'UTC', 'date');
  return html`<span title="until ${formatTimeIn(end, zone)} ${zone}">${windows[window]} of ${window === 'month' ? day.slice(0, 7) : window === 'day' ? day : formatTimeIn(start, 'UTC', 'minute')}</span>`;
}

function useOf({ counter: { key, limit }, usage }: CountedCeiling): Html {
  if (!usage) return html`<span class="muted">No longer known</span>`;
  const text = `${formatAmount(key.ceiling, usage.used)} of ${formatAmount(key.ceiling, limit)}`;
  return meter({ label: `${holderOf(key)}: ${key.ceiling}`, value: usage.used, max: limit, text });
}
