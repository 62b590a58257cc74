/**
 * The page of an application, with the use of its ceilings and a form for its settings. Tiers of an application
 * override those of the project.
 */
import { type StoredApplication, toApplicationSettingsJson } from '../../projects/application-settings.ts';
import type { Application } from '../../projects/applications.ts';
import { toSettingsJson } from '../../projects/project-settings.ts';
import type { Catalog } from '../../routing/catalog.ts';
import { checkApplicationChange, type RoutingFindings } from '../../routing/check-change.ts';
import { configuredTiers, listUsableModels, type TierKind } from '../../routing/check-models.ts';
import { arrangeTiers } from '../frame/arrange-tiers.ts';
import { type CeilingUse, ceilingFields, ceilingMeters, readLimit } from '../frame/ceilings.ts';
import { actionButton, card, fieldset, form as renderForm, section, textField } from '../frame/components.ts';
import { type FieldErrors, noErrors } from '../frame/field-errors.ts';
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
import { confirmationOf, markModel } from '../frame/tier-checks.ts';
import {
  assertDistinctTiers,
  defaultButton,
  type InheritedTier,
  readTiers,
  setTiers,
  tierFields,
  tierScript,
} from '../frame/tier-fields.ts';
import { applicationPath, callsPath } from './application-list.ts';

const kinds = [
  ['tiers', 'Tiers for text'],
  ['image_tiers', 'Tiers for images'],
  ['speech_tiers', 'Tiers for speech'],
  ['transcription_tiers', 'Tiers for transcription'],
] as const;

export interface ApplicationPageDeps {
  readonly catalog: () => Catalog;
  /** Returns the default for projects that don't have their own setting. */
  readonly catalogFill: () => boolean;
}

export interface SubmittedForm {
  readonly form: URLSearchParams;
  readonly errors: FieldErrors;
  /** The person has to confirm the warnings. */
  readonly findings?: RoutingFindings;
}

/** The maximum number of models to choose from, which keeps the page small. */
const maxChoices = 300;

export function newApplicationPage(deps: ApplicationPageDeps, context: ConsoleContext, submitted: SubmittedForm): PageContent {
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
  submitted?: SubmittedForm,
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

function settingsForm(deps: ApplicationPageDeps, context: ConsoleContext, source: string, submitted: SubmittedForm, read: Settings): Html {
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
  { form, errors, findings }: SubmittedForm,
  arrangePath: string,
): Html[] {
  const scope = { catalog: deps.catalog(), project: context.project.settings };
  return [
    fieldset(
      'Ceilings',
      [ceilingFields({ form, errors, withRates: false })],
      'These apply in addition to the ceilings of the key and the project. Leave a field empty for no limit.',
    ),
    ...kinds.map(([name, legend]) =>
      tierFields({
        name,
        legend,
        form,
        errors,
        hint: 'For this application, a tier replaces the tier of the project with the same name. Models are tried from top to bottom.',
        arrangePath,
        choices: listUsableModels(scope, name).slice(0, maxChoices),
        inherited: inheritedTiers(deps, context, name),
        mark: (model) => markModel(scope, name, model),
      }),
    ),
    html`${findings ? confirmationOf(findings) : ''}`,
  ];
}

function inheritedTiers({ catalog }: ApplicationPageDeps, { project }: ConsoleContext, name: TierKind): InheritedTier[] {
  const own = toSettingsJson(project.settings)[name];
  return Object.entries({ ...configuredTiers(catalog())[name], ...own }).map(([tier, models]) => ({
    name: tier,
    models,
    origin: Object.hasOwn(own, tier) ? 'of the project' : 'in the configuration file',
  }));
}

/** Returns the form again after a button has moved, added or removed a model or a tier. */
export function arrange(deps: ApplicationPageDeps, context: ConsoleContext, form: URLSearchParams): SubmittedForm {
  const inherited = (wanted: string) => kinds.flatMap(([name]) => (name === wanted ? inheritedTiers(deps, context, name) : []));
  return { form: arrangeTiers(form, inherited), errors: noErrors };
}

/** Throws `bad_request` if two tiers have the same name. */
export function assertTiers(form: URLSearchParams): void {
  for (const [name] of kinds) assertDistinctTiers(form, name);
}

export function findingsOf(
  { catalog, catalogFill }: ApplicationPageDeps,
  { project }: ConsoleContext,
  { settings }: Pick<Application, 'settings'>,
  form: URLSearchParams,
): RoutingFindings {
  const submitted = {
    tiers: readTiers(form, 'tiers'),
    imageTiers: readTiers(form, 'image_tiers'),
    speechTiers: readTiers(form, 'speech_tiers'),
    transcriptionTiers: readTiers(form, 'transcription_tiers'),
  };
  return checkApplicationChange({ catalog: catalog(), catalogFill: catalogFill() }, project.settings, settings, submitted);
}

/** Shown to members, who can't change the settings. */
function ownTiers(stored: StoredApplication): Html {
  const items = kinds.flatMap(([name]) => Object.entries(stored[name]));
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
  for (const [name] of kinds) setTiers(form, name, stored[name]);
  return form;
}

export function editOf(form: URLSearchParams): SettingsEdit {
  return compareSettings(parseSettingsField(form), readApplicationInput(form));
}

/** Reads all members of the settings from the form. */
export function readApplicationInput(form: URLSearchParams): Settings {
  return {
    ceilings: { calls: readLimit(form, 'calls'), cost: readLimit(form, 'cost') },
    windows: { calls: form.get('windows.calls'), cost: form.get('windows.cost') },
    ...Object.fromEntries(kinds.map(([name]) => [name, readTiers(form, name)])),
  };
}
