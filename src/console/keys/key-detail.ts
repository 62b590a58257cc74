/** The page of a key with its settings and usage. Owners can change, rotate and revoke the key. */
import type { StoreDownPolicy } from '../../core/windows.ts';
import type { KeyRecord } from '../../keys/key-record.ts';
import type { KeyModelState } from '../../routing/key-models.ts';
import { ceilingMeters } from '../frame/ceilings.ts';
import {
  ago,
  badge,
  card,
  confirmationForm,
  definitions,
  formatCount,
  notice,
  form as renderForm,
  section,
  selectField,
  time,
} from '../frame/components.ts';
import type { FieldErrors } from '../frame/field-errors.ts';
import { type Html, html } from '../frame/html.ts';
import { describeOutage } from '../frame/outage.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import { newKeyField } from './key-form.ts';
import { lastErrorLink, prefixOf, spendLink, stateBadge, stateOf, type UsedKey } from './key-list.ts';

interface KeyPageOptions {
  /** The policy in gateway.yaml, which applies if neither the key nor the project has one. */
  readonly onBudgetStoreDown: StoreDownPolicy;
  readonly modelStates: ReadonlyMap<string, KeyModelState>;
  readonly form: URLSearchParams;
  readonly errors: FieldErrors;
}

export function keyPage(
  context: ConsoleContext,
  key: UsedKey,
  { onBudgetStoreDown, modelStates, form, errors }: KeyPageOptions,
): PageContent {
  const { record, uses, lastUsedAt } = key;
  const { zone, now } = context;
  const path = projectPath(context, '/keys');
  const isActive = stateOf(record, now) === 'active';
  return {
    kind: 'page',
    title: record.name,
    breadcrumbs: [{ label: 'Keys', href: path }],
    actions: html`<a class="button" href="${projectPath(context, '/calls')}?key=${record.prefix}">Calls</a>${
      context.role === 'owner' && record.revokedAt === null
        ? html`<a class="button primary" href="${path}/${record.prefix}/edit">Edit</a>`
        : ''
    }`,
    content: html`${card(
      definitions([
        ['Key', prefixOf(record)],
        ['State', stateBadge(record, now)],
        ['Models', models(record, modelStates)],
        ...(record.requiredTags.length === 0 ? [] : [['Required tags', record.requiredTags.join(', ')] as const]),
        ['Created', time(record.createdAt, zone)],
        ['Default output limit', record.defaultMaxOutputTokens === null ? 'None' : `${formatCount(record.defaultMaxOutputTokens)} tokens`],
        ['Expires', record.expiresAt === null ? 'Never' : time(record.expiresAt, zone)],
        ...(record.revokedAt === null ? [] : [['Revoked', time(record.revokedAt, zone)] as const]),
        ['Last used', ago(lastUsedAt, now, zone)],
        ['Spend, 30 days', spendLink(context, key)],
        ['Last error', lastErrorLink(context, key)],
        ['Time zone', zone],
      ]),
    )}
${section('Ceilings', card(ceilingMeters(uses)), { hint: 'Windows are in UTC. Includes the keys that this one replaced by rotation.' })}
${outage(context, record, onBudgetStoreDown)}
${context.role === 'owner' && isActive ? ownerActions(context, record, form, errors) : ''}`,
  };
}

function outage({ project }: ConsoleContext, { onBudgetStoreDown, ceilings }: KeyRecord, deploymentPolicy: StoreDownPolicy): Html {
  const projectPolicy = project.settings.onBudgetStoreDown;
  const policy = onBudgetStoreDown ?? projectPolicy ?? deploymentPolicy;
  const from = onBudgetStoreDown ? 'key' : projectPolicy ? 'project' : 'deployment';
  const isPrepaid = ceilings.cost.limit !== null && ceilings.cost.window === 'total';
  const warning =
    isPrepaid && policy === 'allow'
      ? notice('This key has a cost ceiling in total. If that was paid in advance, issue a key that refuses calls in an outage.', 'warning')
      : '';
  return section('When the database cannot be reached', html`${warning}<p>${describeOutage({ policy, from })}</p>`);
}

function models({ models }: KeyRecord, states: ReadonlyMap<string, KeyModelState>): Html | string {
  if (models === null) return 'All models and tiers';
  return models.length === 0
    ? 'None'
    : html`<ul class="bare">${models.map((model) => html`<li><code>${model}</code> ${modelBadge(states.get(model))}</li>`)}</ul>`;
}

function modelBadge(state: KeyModelState = 'known'): Html | string {
  if (state === 'unknown') return badge('neither a tier nor a model', 'bad');
  if (state === 'not_allowed') return badge('provider not allowed', 'bad');
  return state === 'uncatalogued' ? badge('not in the catalog', 'warning') : '';
}

const gracePeriods = [
  { value: '0', label: 'At once' },
  { value: '3600', label: 'In an hour' },
  { value: '86400', label: 'In a day' },
  { value: '604800', label: 'In a week' },
  { value: '2592000', label: 'In 30 days' },
] as const;

function ownerActions(context: ConsoleContext, { prefix }: KeyRecord, form: URLSearchParams, errors: FieldErrors): Html {
  const path = projectPath(context, `/keys/${prefix}`);
  const rotation = renderForm({
    context,
    action: `${path}/rotate`,
    submit: 'Rotate',
    label: 'Rotate the key',
    fields: [
      newKeyField(context, form),
      selectField({
        name: 'grace_seconds',
        label: 'The old key ends',
        options: gracePeriods,
        value: form.get('grace_seconds') ?? '86400',
        error: errors.of('grace_seconds'),
        required: true,
      }),
    ],
  });
  const revocation = confirmationForm({
    context,
    action: `${path}/revoke`,
    submit: 'Revoke key',
    label: 'Revoke the key',
    confirmation: prefix,
    text: 'Applications that use the key get 401 within a second. This cannot be undone.',
  });
  return html`${section('Rotate', card(rotation), { hint: 'Issues a new key with the same settings. Both keys count against the same ceilings.' })}
${section('Revoke', revocation)}`;
}
