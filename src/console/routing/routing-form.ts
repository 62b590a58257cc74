import { type StoredSettings, toSettingsJson } from '../../projects/project-settings.ts';
import { type TierSets, toTierSettings } from '../../projects/tiers.ts';
import { checkProjectChange, type RoutingFindings } from '../../routing/check-change.ts';
import type { ModelScope } from '../../routing/check-models.ts';
import { arrangeTiers } from '../frame/arrange-tiers.ts';
import {
  checkboxField,
  fieldset,
  fillFields,
  form as renderForm,
  selectField,
  textArea,
  textField,
  toOptions,
} from '../frame/components.ts';
import { type FieldErrors, noErrors } from '../frame/field-errors.ts';
import { listOf } from '../frame/form-values.ts';
import { html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import { compareSettings, parseSettingsField, rebaseSettings, type SettingsEdit, settingsField } from '../frame/settings-edit.ts';
import { assertSafeChange, confirmationOf, type SubmittedTiers } from '../frame/tier-checks.ts';
import { defaultButton, inheritedTiers, readTiers, setTiers, tierFields, tierScript } from '../frame/tier-fields.ts';
import type { RoutingPageDeps } from './routing-page.ts';

type RoutingSettings = Pick<StoredSettings, 'providers' | 'required_tags' | 'retired' | 'catalog_fill'> & TierSets;

function routingOf(settings: StoredSettings): RoutingSettings {
  const { providers, required_tags, tiers, image_tiers, speech_tiers, transcription_tiers, retired, catalog_fill } = settings;
  return { providers, required_tags, tiers, image_tiers, speech_tiers, transcription_tiers, retired, catalog_fill };
}

export function routingForm(deps: RoutingPageDeps, context: ConsoleContext, rejected?: SubmittedTiers): PageContent {
  const current = routingOf(toSettingsJson(context.project.settings));
  const rebased = rebaseSettings(rejected?.form, editOf, current);
  const form = rejected?.form ?? toForm(current);
  const { providers, required_tags: requiredTags } = readRouting(form);
  const scope: ModelScope = { catalog: deps.catalog(), project: { providers, requiredTags } };
  const errors = rejected?.errors ?? noErrors;
  const filled = fillFields(form, errors);
  const chosen = form.getAll('providers');
  // List the chosen providers first, in their stored order. Browsers send checked boxes in page order, so an untouched
  // form sends the stored list and doesn't count as a change.
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
        defaultButton,
        settingsField(rebased.read),
        ...tierFields({
          ...{ form, errors, scope, arrangePath: `${path}/edit/arrange`, showsInherited: true },
          hint: 'Models are tried from top to bottom. A tier replaces the one of the same name in the configuration file.',
          inherited: (kind) => inheritedTiers(deps.catalog(), kind),
        }),
        fieldset(
          'Providers',
          [
            selectField({
              name: 'allowed',
              label: 'Allowed providers',
              value: form.get('allowed'),
              error: errors.of('providers'),
              required: true,
              options: toOptions({ all: 'All, also those added later', selected: 'Only the selected ones' }),
            }),
            html`<div class="checks">${names.map((name) => checkboxField({ name: 'providers', value: name, label: name, checked: chosen.includes(name) }))}</div>`,
            textField({
              ...filled('required_tags'),
              label: 'Required tags',
              hint: 'The project only uses providers that have all of these tags, such as eu or zero-retention. Separate tags with spaces.',
            }),
          ],
          'The project may use no other provider.',
        ),
        textArea({
          ...filled('retired'),
          label: 'Retired models and providers',
          hint: 'One a line: provider/model, or the name of a provider. They are called only after all others.',
          code: true,
        }),
        selectField({
          ...filled('catalog_fill'),
          label: 'Catalog fill',
          required: true,
          options: toOptions({ configured: `As in the configuration (${deps.catalogFill() ? 'on' : 'off'})`, on: 'On', off: 'Off' }),
        }),
        html`${rejected?.findings ? confirmationOf(rejected.findings) : ''}`,
      ],
    })}`,
    scripts: [tierScript],
  };
}

/** Returns the form after somebody has pressed a button that moves, adds or removes a model or a tier. */
export function arrangedForm(deps: RoutingPageDeps, context: ConsoleContext, form: URLSearchParams): PageContent {
  const arranged = arrangeTiers(form, (kind) => inheritedTiers(deps.catalog(), kind));
  return routingForm(deps, context, { form: arranged, errors: noErrors });
}

export function rejectedForm(deps: RoutingPageDeps, context: ConsoleContext, form: URLSearchParams, errors: FieldErrors): PageContent {
  return routingForm(deps, context, { form, errors, findings: findingsOf(deps, context, form) });
}

/** Throws `bad_request` if the change contains a mistake, or causes a warning that hasn't been confirmed. */
export function assertRouting(deps: RoutingPageDeps, context: ConsoleContext, form: URLSearchParams): void {
  assertSafeChange(findingsOf(deps, context, form), form);
}

function findingsOf(deps: RoutingPageDeps, context: ConsoleContext, form: URLSearchParams): RoutingFindings {
  const { settings } = context.project;
  // Only use the values that the editor has changed. Everything else keeps its current value, because somebody else may
  // have changed it in the meantime.
  const after = { ...routingOf(toSettingsJson(settings)), ...editOf(form).change };
  const { providers, retired, required_tags: requiredTags, catalog_fill: catalogFill } = after;
  const change = { ...toTierSettings(after), providers, retired, requiredTags, catalogFill };
  return checkProjectChange({ catalog: deps.catalog(), catalogFill: deps.catalogFill() }, settings, change);
}

export function editOf(form: URLSearchParams): SettingsEdit<RoutingSettings> {
  return compareSettings(parseSettingsField(form), readRouting(form));
}

function toForm({ providers, required_tags, retired, catalog_fill, ...tiers }: RoutingSettings): URLSearchParams {
  const form = new URLSearchParams({
    allowed: providers === null ? 'all' : 'selected',
    required_tags: required_tags.join(' '),
    retired: retired.join('\n'),
    catalog_fill: catalog_fill === null ? 'configured' : catalog_fill ? 'on' : 'off',
  });
  for (const name of providers ?? []) form.append('providers', name);
  setTiers(form, tiers);
  return form;
}

function readRouting(form: URLSearchParams): RoutingSettings {
  const fill = form.get('catalog_fill');
  return {
    providers: form.get('allowed') === 'selected' ? form.getAll('providers') : null,
    required_tags: listOf(form, 'required_tags'),
    retired: listOf(form, 'retired'),
    catalog_fill: fill === 'on' ? true : fill === 'off' ? false : null,
    ...readTiers(form),
  };
}
