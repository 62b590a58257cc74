/**
 * The page of a refused call, with the reason for the refusal, where to change it, and what to do next.
 */
import type { RefusalReason } from '../../core/refusal.ts';
import { explainRefusal, reasonLabels } from '../../usage/refusals/explain-refusal.ts';
import { type RefusedCallRow, startOfRefused } from '../../usage/refusals/read-refusals.ts';
import { badge, card, copyable, definitions, notice, section, time } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageResult } from '../frame/route.ts';
import { weekAround } from '../frame/time-range.ts';

export function refusedCallPage(context: ConsoleContext, row: RefusedCallRow): PageResult {
  const { zone } = context;
  const { explanation, advice } = explainRefusal(row);
  const startedAt = startOfRefused(row);
  const around = weekAround(startedAt, zone);
  const refused = (query: Record<string, string>): string => projectPath(context, '/calls/refused', { ...around, ...query });
  const key = row.keyName === null ? row.keyPrefix : `${row.keyName} (${row.keyPrefix})`;
  const content = html`${notice(html`${explanation} The caller received ${row.status} with the code <code>${row.code}</code>, and no vendor was called.`, 'warning')}
${card(
  definitions([
    ['Id', copyable(row.id)],
    ['Refused', html`${time(startedAt, zone, 'millisecond')} <span class="zone">${zone}</span>`],
    ['Reason', html`<a href="${refused({ reason: row.reason })}">${reasonLabels[row.reason]}</a>`],
    ['Application', row.source === null ? 'Not known' : html`<a href="${refused({ source: row.source })}">${row.source}</a>`],
    ['Key', html`<a href="${refused({ key: row.keyPrefix })}">${key}</a>`],
    ['Route', row.route],
    ['Requested model', row.requestedModel ?? 'Not read, because the call was refused before that'],
  ]),
)}
${section('What to do next', card(html`<p>${advice}</p>${formLink(context, row)}`))}
<p class="hint">The gateway keeps no text of a refused call. It counts neither as a call nor as an error, and costs nothing.</p>`;
  return {
    kind: 'page',
    title: 'Refused call',
    breadcrumbs: [
      { label: 'Calls', href: projectPath(context, '/calls', around) },
      { label: 'Refused calls', href: refused({}) },
    ],
    actions: badge(`${row.status} ${row.code}`, 'warning'),
    content,
  };
}

interface FormLink {
  readonly label: string;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
}

/**
 * Links to the page of the rule or ceiling that refused the call. All members can open this page, but only owners can
 * change something there.
 */
function formLink(context: ConsoleContext, row: RefusedCallRow): Html | string {
  const link = placeOf(row, context.role === 'owner');
  return link === null
    ? ''
    : html`<p><a class="button" href="${projectPath(context, link.path, link.query)}">${link.label}</a></p>${
        context.role === 'owner' ? '' : html`<p class="hint">Only an owner of the project can change this.</p>`
      }`;
}

function placeOf({ reason, keyPrefix, keyName, source, requestedModel }: RefusedCallRow, isOwner: boolean): FormLink | null {
  // The gateway's own calls have no key that we could link to.
  const key = (label: string, page: string): FormLink | null => (keyName === null ? null : { label, path: `/keys/${keyPrefix}${page}` });
  const edit = isOwner ? '/edit' : '';
  const places: Readonly<Record<RefusalReason, FormLink | null>> = {
    key_expired: key('Open the key', edit),
    key_revoked: { label: 'Open the keys', path: '/keys' },
    calls_off: { label: 'Open the project settings', path: `/project${edit}` },
    key_ceiling: key('Open the ceilings of the key', edit),
    application_ceiling: {
      label: 'Open the ceilings of the application',
      path: '/applications/application',
      query: { name: source ?? '' },
    },
    project_cap: { label: 'Open the monthly cap of the project', path: `/project${edit}` },
    ceilings_unchecked: { label: 'Open the project settings', path: `/project${edit}` },
    content_rule: { label: 'Open the content rules', path: '/rules' },
    content_rule_unfinished: { label: 'Open the content rules', path: '/rules' },
    model_unknown: { label: 'Open the routing', path: `/routing${edit}` },
    model_not_permitted: key('Open the models of the key', edit),
    model_without_price: { label: 'Open the routing', path: '/routing' },
    provider_not_allowed: { label: 'Open the providers of the project', path: `/routing${edit}` },
    tags_missing: { label: 'Open the required tags', path: `/routing${edit}` },
    no_model: {
      label: 'Open a dry run',
      path: '/routing/dry-run',
      ...(requestedModel !== null && { query: { model: requestedModel } }),
    },
  };
  return places[reason];
}
