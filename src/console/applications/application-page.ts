/**
 * The page of an application, with the usage of its ceilings and a form for its settings. Tiers of the application
 * override those of the project.
 */
import { type StoredApplication, toApplicationSettingsJson } from '../../projects/application-settings.ts';
import type { Application } from '../../projects/applications.ts';
import { type TierKind, tierKinds, toTierSets, toTierSettings } from '../../projects/tiers.ts';
import type { Catalog } from '../../routing/catalog.ts';
import { checkApplicationChange, type RoutingFindings } from '../../routing/check-change.ts';
import { arrangeTiers } from '../frame/arrange-tiers.ts';
import { type CeilingUse, ceilingFields, ceilingMeters, readLimit } from '../frame/ceilings.ts';
import { actionButton, card, fieldset, form as renderForm, section, textField } from '../frame/components.ts';
import { noErrors } from '../frame/field-errors.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import {
  compareSettings,
  parseSettingsField,
  rebaseSettings,
  type Settings,
  type SettingsEdit,
  settingsField,
} from '../frame/settings-edit.ts';
import { confirmationOf, type SubmittedTiers } from '../frame/tier-checks.ts';
import { defaultButton, type InheritedTier, inheritedTiers, readTiers, setTiers, tierFields, tierScript } from '../frame/tier-fields.ts';
import { applicationPath, callsPath } from './application-list.ts';

export interface ApplicationPageDeps {
  readonly catalog: () => Catalog;
  /** Says whether catalog fill is on for projects that don't have a setting of their own. */
  readonly catalogFill: () => boolean;
}

export function newApplicationPage(deps: ApplicationPageDeps, context: ConsoleContext, submitted: SubmittedTiers): PageContent {
  const path = projectPath(context, '/applications');
  const { form, errors } = submitted;
  return {
    kind: 'page',
    title: 'Limits of an application',
    breadcrumbs: [{ label: 'Applications', href: path }],
    content: renderForm({
      context,
      action: `${path}/new`,
      submit: 'Save',
      cancelHref: path,
      fields: [
        defaultButton,
        textField({
          name: 'application',
          label: 'Application',
          hint: html`The value that callers send in the header <code>x-gateway-source</code>. Calls without the header count for an application named after the slug of the project.`,
          value: form.get('application'),
          error: errors.of('source'),
          required: true,
          maxLength: 256,
          autocomplete: 'off',
          autofocus: !form.has('arrange'),
        }),
        ...settingFields(deps, context, submitted, `${path}/new/arrange`),
      ],
    }),
    scripts: [tierScript],
  };
}

export function applicationPage(
  deps: ApplicationPageDeps,
  context: ConsoleContext,
  { application, uses }: { readonly application: Application; readonly uses: readonly CeilingUse[] },
  submitted?: SubmittedTiers,
): PageContent {
  const { source, settings, createdAt } = application;
  const stored = toApplicationSettingsJson(settings);
  const rebased = rebaseSettings(submitted?.form, editOf, stored);
  const isOwner = context.role === 'owner';
  const calls = callsPath(context, source);
  const shown = submitted ?? { form: toForm(stored), errors: noErrors };
  const reset =
    isOwner && createdAt !== null
      ? actionButton({
          context,
          action: `${projectPath(context, '/applications/reset')}`,
          values: { application: source },
          label: 'Remove settings',
          about: `of ${source}`,
          danger: true,
        })
      : '';
  return {
    kind: 'page',
    title: source,
    breadcrumbs: [{ label: 'Applications', href: projectPath(context, '/applications') }],
    actions: html`<a class="button" href="${calls}">Calls</a>${reset}`,
    content: html`${section('Use of ceilings', card(ceilingMeters(uses)), { hint: 'Days and months are in UTC.' })}
${rebased.notice}${isOwner ? section('Settings', settingsForm(deps, context, source, shown, rebased.read)) : ownTiers(stored)}`,
    scripts: [tierScript],
  };
}

function settingsForm(deps: ApplicationPageDeps, context: ConsoleContext, source: string, submitted: SubmittedTiers, read: Settings): Html {
  const query = new URLSearchParams({ name: source });
  return renderForm({
    context,
    action: applicationPath(context, source),
    submit: 'Save',
    fields: [
      defaultButton,
      settingsField(read),
      ...settingFields(deps, context, submitted, `${projectPath(context, '/applications/application/arrange')}?${query}`),
    ],
  });
}

function settingFields(
  deps: ApplicationPageDeps,
  context: ConsoleContext,
  { form, errors, findings }: SubmittedTiers,
  arrangePath: string,
): Html[] {
  const scope = { catalog: deps.catalog(), project: context.project.settings };
  return [
    fieldset(
      'Ceilings',
      [ceilingFields({ form, errors, withRates: false })],
      'These apply in addition to the ceilings of the key and the project. Leave a field empty for no limit.',
    ),
    ...tierFields({
      ...{ form, errors, scope, arrangePath },
      hint: 'For this application, a tier replaces the tier of the project with the same name. Models are tried from top to bottom.',
      inherited: inheritedBy(deps, context),
    }),
    html`${findings ? confirmationOf(findings) : ''}`,
  ];
}

function inheritedBy({ catalog }: ApplicationPageDeps, { project }: ConsoleContext): (kind: TierKind) => InheritedTier[] {
  const ofProject = toTierSets(project.settings);
  return (kind) => inheritedTiers(catalog(), kind, ofProject[kind]);
}

/** Returns the form after somebody has pressed a button that moves, adds or removes a model or a tier. */
export function arrange(deps: ApplicationPageDeps, context: ConsoleContext, form: URLSearchParams): SubmittedTiers {
  return { form: arrangeTiers(form, inheritedBy(deps, context)), errors: noErrors };
}

export function findingsOf(
  { catalog, catalogFill }: ApplicationPageDeps,
  { project }: ConsoleContext,
  { settings }: Pick<Application, 'settings'>,
  form: URLSearchParams,
): RoutingFindings {
  const submitted = toTierSettings(readTiers(form));
  return checkApplicationChange({ catalog: catalog(), catalogFill: catalogFill() }, project.settings, settings, submitted);
}

/** Members can't change the tiers of an application, so they see this list instead of the form. */
function ownTiers(stored: StoredApplication): Html {
  const items = tierKinds.flatMap((kind) => Object.entries(stored[kind]));
  if (items.length === 0) return section('Own tiers', card(html`<p class="muted">This application uses the tiers of the project.</p>`));
  return section(
    'Own tiers',
    card(
      html`<dl class="definitions">${items.map(([tier, models]) => html`<div><dt>${tier}</dt><dd>${models.map((model) => html`<code>${model}</code> `)}</dd></div>`)}</dl>`,
    ),
  );
}

function toForm({ ceilings, windows, ...stored }: StoredApplication): URLSearchParams {
  const form = new URLSearchParams({ 'windows.calls': windows.calls, 'windows.cost': windows.cost });
  if (ceilings.calls !== null) form.set('ceilings.calls', String(ceilings.calls));
  if (ceilings.cost !== null) form.set('ceilings.cost', String(ceilings.cost));
  setTiers(form, stored);
  return form;
}

export function editOf(form: URLSearchParams): SettingsEdit {
  return compareSettings(parseSettingsField(form), readApplicationInput(form));
}

export function readApplicationInput(form: URLSearchParams): Settings {
  return {
    ceilings: { calls: readLimit(form, 'calls'), cost: readLimit(form, 'cost') },
    windows: { calls: form.get('windows.calls'), cost: form.get('windows.cost') },
    ...readTiers(form),
  };
}
