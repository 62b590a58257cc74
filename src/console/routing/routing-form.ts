/** Renders and parses the form of the project's routing settings. */
import { type StoredSettings, toSettingsJson } from '../../projects/project-settings.ts';
import { checkboxField, fieldset, form as renderForm, selectField, textArea, textField } from '../frame/components.ts';
import { type FieldErrors, noErrors } from '../frame/field-errors.ts';
import { listOf } from '../frame/form-values.ts';
import { html } from '../frame/html.ts';
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
import type { RoutingPageDeps } from './routing-page.ts';

const kinds = [
  ['tiers', 'Tiers for text'],
  ['image_tiers', 'Tiers for images'],
  ['speech_tiers', 'Tiers for speech'],
  ['transcription_tiers', 'Tiers for transcription'],
] as const;

/** Returns the project's settings that this form can change. */
function routingOf(settings: StoredSettings) {
  const { providers, required_tags, tiers, image_tiers, speech_tiers, transcription_tiers, retired, catalog_fill } = settings;
  return { providers, required_tags, tiers, image_tiers, speech_tiers, transcription_tiers, retired, catalog_fill };
}

export function routingForm(
  deps: RoutingPageDeps,
  context: ConsoleContext,
  rejected?: { readonly form: URLSearchParams; readonly errors: FieldErrors },
): PageContent {
  const current = routingOf(toSettingsJson(context.project.settings));
  const rebased = rebaseSettings(rejected?.form, editOf, current);
  const form = rejected?.form ?? toForm(current);
  const errors = rejected?.errors ?? noErrors;
  const chosen = form.getAll('providers');
  // List the chosen providers first. If the choice doesn't change, the browser then sends them in the order in which
  // they're stored.
  const names = [...new Set([...chosen, ...deps.listProviders().map(({ name }) => name)])];
  const path = projectPath(context, '/routing');
  return {
    kind: 'page',
    title: 'Edit routing',
    breadcrumbs: [{ label: 'Routing', href: path }],
    content: html`${rebased.notice}${renderForm({
      context,
      action: `${path}/edit`,
      submit: 'Save',
      cancelHref: path,
      fields: [
        settingsField(rebased.read),
        ...kinds.map(([name, legend]) =>
          tierFields({
            name,
            legend,
            form,
            errors,
            hint: 'Replaces the tier of the same name of the configuration. Clear name and models of a tier to remove it.',
          }),
        ),
        fieldset(
          'Providers',
          [
            selectField({
              name: 'allowed',
              label: 'Allowed providers',
              value: form.get('allowed'),
              error: errors.of('providers'),
              required: true,
              options: [
                { value: 'all', label: 'All, also those added later' },
                { value: 'selected', label: 'Only the selected ones' },
              ],
            }),
            html`<div class="checks">${names.map((name) => checkboxField({ name: 'providers', value: name, label: name, checked: chosen.includes(name) }))}</div>`,
            textField({
              name: 'required_tags',
              label: 'Required tags',
              hint: 'Only providers with all of these tags get calls of the project, such as eu or zero-retention. Separate them by spaces.',
              value: form.get('required_tags'),
              error: errors.of('required_tags'),
            }),
          ],
          'The project may use no other provider.',
        ),
        textArea({
          name: 'retired',
          label: 'Retired models and providers',
          hint: 'One a line: provider/model, or the name of a provider. They are called only after all others.',
          value: form.get('retired') ?? '',
          error: errors.of('retired'),
          code: true,
        }),
        selectField({
          name: 'catalog_fill',
          label: 'Catalog fill',
          value: form.get('catalog_fill'),
          error: errors.of('catalog_fill'),
          required: true,
          options: [
            { value: 'configured', label: `As in the configuration (${deps.catalogFill() ? 'on' : 'off'})` },
            { value: 'on', label: 'On' },
            { value: 'off', label: 'Off' },
          ],
        }),
      ],
    })}`,
  };
}

/** Throws `bad_request` if two tiers have the same name, because the settings can't express that. */
export function assertTiers(form: URLSearchParams): void {
  for (const [name] of kinds) assertDistinctTiers(form, name);
}

export function editOf(form: URLSearchParams): SettingsEdit {
  return compareSettings(parseSettingsField(form), readRouting(form));
}

function toForm({ providers, required_tags, retired, catalog_fill, ...tiers }: ReturnType<typeof routingOf>): URLSearchParams {
  const form = new URLSearchParams({
    allowed: providers === null ? 'all' : 'selected',
    required_tags: required_tags.join(' '),
    retired: retired.join('\n'),
    catalog_fill: catalog_fill === null ? 'configured' : catalog_fill ? 'on' : 'off',
  });
  for (const name of providers ?? []) form.append('providers', name);
  for (const [name] of kinds) setTiers(form, name, tiers[name]);
  return form;
}

function readRouting(form: URLSearchParams): Settings {
  const fill = form.get('catalog_fill');
  return {
    providers: form.get('allowed') === 'selected' ? form.getAll('providers') : null,
    required_tags: listOf(form, 'required_tags'),
    retired: listOf(form, 'retired'),
    catalog_fill: fill === 'on' ? true : fill === 'off' ? false : null,
    ...Object.fromEntries(kinds.map(([name]) => [name, readTiers(form, name)])),
  };
}
