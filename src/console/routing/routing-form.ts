/** Renders and parses the form of the project's routing settings. */
import { type StoredSettings, toSettingsJson } from '../../projects/project-settings.ts';
import { checkProjectChange, type RoutingFindings } from '../../routing/check-change.ts';
import { configuredTiers, listUsableModels, type ModelScope, type TierKind, type TierSets } from '../../routing/check-models.ts';
import { arrangeTiers } from '../frame/arrange-tiers.ts';
import { checkboxField, fieldset, form as renderForm, selectField, textArea, textField } from '../frame/components.ts';
import { type FieldErrors, noErrors } from '../frame/field-errors.ts';
import { listOf } from '../frame/form-values.ts';
import { html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import { compareSettings, parseSettingsField, rebaseSettings, type SettingsEdit, settingsField } from '../frame/settings-edit.ts';
import { assertSafeChange, confirmationOf, markModel } from '../frame/tier-checks.ts';
import {
  assertDistinctTiers,
  defaultButton,
  type InheritedTier,
  readTiers,
  setTiers,
  tierFields,
  tierScript,
} from '../frame/tier-fields.ts';
import type { RoutingPageDeps } from './routing-page.ts';

const kinds = [
  ['tiers', 'Tiers for text'],
  ['image_tiers', 'Tiers for images'],
  ['speech_tiers', 'Tiers for speech'],
  ['transcription_tiers', 'Tiers for transcription'],
] as const;

type RoutingSettings = Pick<StoredSettings, 'providers' | 'required_tags' | 'retired' | 'catalog_fill'> & TierSets;

/** The maximum number of models to choose from, which keeps the page small. */
const maxChoices = 300;

/** Returns the project's settings that this form can change. */
function routingOf(settings: StoredSettings): RoutingSettings {
  const { providers, required_tags, tiers, image_tiers, speech_tiers, transcription_tiers, retired, catalog_fill } = settings;
  return { providers, required_tags, tiers, image_tiers, speech_tiers, transcription_tiers, retired, catalog_fill };
}

interface RejectedForm {
  readonly form: URLSearchParams;
  readonly errors: FieldErrors;
  /** The person has to confirm the warnings. */
  readonly findings?: RoutingFindings;
}

export function routingForm(deps: RoutingPageDeps, context: ConsoleContext, rejected?: RejectedForm): PageContent {
  const current = routingOf(toSettingsJson(context.project.settings));
  const rebased = rebaseSettings(rejected?.form, editOf, current);
  const form = rejected?.form ?? toForm(current);
  const { providers, required_tags: requiredTags } = readRouting(form);
  const scope: ModelScope = { catalog: deps.catalog(), project: { providers, requiredTags } };
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
        defaultButton,
        settingsField(rebased.read),
        ...kinds.map(([name, legend]) =>
          tierFields({
            name,
            legend,
            form,
            errors,
            hint: 'Models are tried from top to bottom. A tier replaces the one of the same name in the configuration file.',
            arrangePath: `${path}/edit/arrange`,
            choices: listUsableModels(scope, name).slice(0, maxChoices),
            inherited: inheritedTiers(deps, name),
            isOpen: inheritedTiers(deps, name).length > 0,
            mark: (model) => markModel(scope, name, model),
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
        html`${rejected?.findings ? confirmationOf(rejected.findings) : ''}`,
      ],
    })}`,
    scripts: [tierScript],
  };
}

function inheritedTiers(deps: RoutingPageDeps, name: TierKind): InheritedTier[] {
  return Object.entries(configuredTiers(deps.catalog())[name]).map(([tier, models]) => ({
    name: tier,
    models,
    origin: 'in the configuration file',
  }));
}

/** Returns the form again after a button has moved, added or removed a model or a tier. */
export function arrangedForm(deps: RoutingPageDeps, context: ConsoleContext, form: URLSearchParams): PageContent {
  const inherited = (wanted: string) => kinds.flatMap(([name]) => (name === wanted ? inheritedTiers(deps, name) : []));
  return routingForm(deps, context, { form: arrangeTiers(form, inherited), errors: noErrors });
}

export function rejectedForm(deps: RoutingPageDeps, context: ConsoleContext, form: URLSearchParams, errors: FieldErrors): PageContent {
  return routingForm(deps, context, { form, errors, findings: findingsOf(deps, context, form) });
}

/** Throws `bad_request` if the change contains a mistake, or a warning that the person hasn't confirmed. */
export function assertRouting(deps: RoutingPageDeps, context: ConsoleContext, form: URLSearchParams): void {
  assertSafeChange(findingsOf(deps, context, form), form);
}

function findingsOf(deps: RoutingPageDeps, context: ConsoleContext, form: URLSearchParams): RoutingFindings {
  const { settings } = context.project;
  const { change } = editOf(form);
  const submitted = readRouting(form);
  const current = routingOf(toSettingsJson(settings));
  /** Someone else may have changed the other members in the meantime. */
  const changed = <Name extends keyof RoutingSettings>(name: Name): RoutingSettings[Name] =>
    Object.hasOwn(change, name) ? submitted[name] : current[name];
  return checkProjectChange({ catalog: deps.catalog(), catalogFill: deps.catalogFill() }, settings, {
    providers: changed('providers'),
    requiredTags: changed('required_tags'),
    tiers: changed('tiers'),
    imageTiers: changed('image_tiers'),
    speechTiers: changed('speech_tiers'),
    transcriptionTiers: changed('transcription_tiers'),
    retired: changed('retired'),
    catalogFill: changed('catalog_fill'),
  });
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

function readRouting(form: URLSearchParams): RoutingSettings {
  const fill = form.get('catalog_fill');
  return {
    providers: form.get('allowed') === 'selected' ? form.getAll('providers') : null,
    required_tags: listOf(form, 'required_tags'),
    retired: listOf(form, 'retired'),
    catalog_fill: fill === 'on' ? true : fill === 'off' ? false : null,
    tiers: readTiers(form, 'tiers'),
    image_tiers: readTiers(form, 'image_tiers'),
    speech_tiers: readTiers(form, 'speech_tiers'),
    transcription_tiers: readTiers(form, 'transcription_tiers'),
  };
}
