/**
 * The page of an application, with the use of its ceilings and a form for its settings. Tiers of an application
 * override those of the project.
 */
import { type StoredApplication, toApplicationSettingsJson } from '../../projects/application-settings.ts';
import type { Application } from '../../projects/applications.ts';
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
import { assertDistinctTiers, readTiers, setTiers, tierFields } from '../frame/tier-fields.ts';
import { applicationPath, callsPath } from './application-list.ts';

const kinds = [
  ['tiers', 'Tiers for text'],
  ['image_tiers', 'Tiers for images'],
  ['speech_tiers', 'Tiers for speech'],
  ['transcription_tiers', 'Tiers for transcription'],
] as const;

export function newApplicationPage(context: ConsoleContext, form: URLSearchParams, errors: FieldErrors = noErrors): PageContent {
  const path = projectPath(context, '/applications');
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
        textField({
          name: 'application',
          label: 'Application',
          hint: html`The value that callers send in the header <code>x-gateway-source</code>. Calls without the header count for an application named after the slug of the project.`,
          value: form.get('application'),
          error: errors.of('source'),
          required: true,
          maxLength: 256,
          autocomplete: 'off',
          autofocus: true,
        }),
        ...settingFields(form, errors),
      ],
    }),
  };
}

export function applicationPage(
  context: ConsoleContext,
  application: Application,
  uses: readonly CeilingUse[],
  rejected?: { readonly form: URLSearchParams; readonly errors: FieldErrors },
): PageContent {
  const { source, settings, createdAt } = application;
  const stored = toApplicationSettingsJson(settings);
  const rebased = rebaseSettings(rejected?.form, editOf, stored);
  const isOwner = context.role === 'owner';
  const calls = callsPath(context, source);
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
${rebased.notice}${isOwner ? section('Settings', settingsForm(context, source, rejected?.form ?? toForm(stored), rebased.read, rejected?.errors ?? noErrors)) : ownTiers(stored)}`,
  };
}

function settingsForm(context: ConsoleContext, source: string, form: URLSearchParams, read: Settings, errors: FieldErrors): Html {
  return renderForm({
    context,
    action: applicationPath(context, source),
    submit: 'Save',
    fields: [settingsField(read), ...settingFields(form, errors)],
  });
}

function settingFields(form: URLSearchParams, errors: FieldErrors): Html[] {
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
        hint: 'For this application, a tier replaces the tier of the project with the same name. To remove a tier, clear its name and its models.',
      }),
    ),
  ];
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

/** Throws `bad_request` if two tiers have the same name. */
export function assertTiers(form: URLSearchParams): void {
  for (const [name] of kinds) assertDistinctTiers(form, name);
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
