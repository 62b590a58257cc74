/**
 * Lets people edit settings such as the project's name, time zone, monthly cap and response cache, or stop the project
 * from making calls.
 */

import type { ReadCounters } from '../../ceilings/counter-usage.ts';
import type { StoreDownPolicy } from '../../core/windows.ts';
import { type ProjectSettings, toSettingsJson } from '../../projects/project-settings.ts';
import type { Projects } from '../../projects/projects.ts';
import { ceilingMeters, countersOf, toUses } from '../frame/ceilings.ts';
import {
  badge,
  card,
  checkboxField,
  definitions,
  fieldset,
  fillFields,
  formatDuration,
  form as renderForm,
  section,
  textField,
} from '../frame/components.ts';
import { noErrors, type SubmittedForm } from '../frame/field-errors.ts';
import { numberOrNull, textOrNull } from '../frame/form-values.ts';
import { html } from '../frame/html.ts';
import { describeOutage, outageField } from '../frame/outage.ts';
import { projectPath } from '../frame/project-path.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageContent, post } from '../frame/route.ts';
import { auditOf, compareSettings, parseSettingsField, rebaseSettings, type SettingsEdit, settingsField } from '../frame/settings-edit.ts';

export interface ProjectSettingsDeps {
  readonly projects: Pick<Projects, 'put'>;
  readonly readCounters: ReadCounters;
  /** Returns the policy from the configuration file, which applies to projects that don't have their own. */
  readonly onBudgetStoreDown: () => StoreDownPolicy;
}

export function createProjectSettingsRoutes(deps: ProjectSettingsDeps): readonly ConsoleRoute[] {
  return [
    get('/project', 'member', (context) => showProject(deps, context)),
    get('/project/edit', 'owner', async (context) => projectForm(deps, context)),
    post(
      '/project/edit',
      {
        access: 'owner',
        action: 'project.change',
        invalidForm: async (context, form, errors) => projectForm(deps, context, { form, errors }),
      },
      async (context, form) => {
        const edit = editOf(form);
        const to = projectPath(context, '/project');
        if (Object.keys(edit.change).length === 0) return { kind: 'redirect', to, notice: 'Nothing was changed.' };
        await deps.projects.put(context.project.slug, edit.change, edit.read);
        return { kind: 'redirect', to, notice: 'Saved.', audit: { changed: auditOf(edit) } };
      },
    ),
  ];
}

async function showProject({ readCounters, onBudgetStoreDown }: ProjectSettingsDeps, context: ConsoleContext): Promise<PageContent> {
  const { project, role, now } = context;
  const { settings } = project;
  const cap = { cost: { limit: settings.monthlyCapNanos, window: 'month' } } as const;
  const counters = countersOf({ projectId: project.id, scope: 'project', scopeId: '' }, cap, now);
  const keys = counters.map(({ key }) => key);
  const uses = toUses(counters, await readCounters(project.id, keys));
  return {
    kind: 'page',
    title: 'Project settings',
    actions: html`${role === 'owner' ? html`<a class="button primary" href="${projectPath(context, '/project/edit')}">Edit</a>` : ''}`,
    content: html`${card(
      definitions([
        ['Name', project.name],
        ['Project', html`<code>${project.slug}</code>`],
        ['Time zone of reports', settings.timeZone],
        ['Calls', settings.mayCall ? badge('allowed', 'good') : badge('refused with 402', 'bad')],
        ['Response cache', cacheSummary(settings.cache)],
        ['Code of errors', settings.errorCodes === 'vendor' ? "The vendor's, where it names one" : "The gateway's"],
      ]),
    )}
${section('Monthly cap', card(ceilingMeters(uses)), { hint: 'Calls beyond the cap are refused with 429 until the next month (UTC).' })}
${section(
  'When the database cannot be reached',
  html`<p>${describeOutage({
    policy: settings.onBudgetStoreDown ?? onBudgetStoreDown(),
    from: settings.onBudgetStoreDown ? 'project' : 'deployment',
  })}</p>`,
  { hint: 'A key may choose otherwise.' },
)}`,
  };
}

function cacheSummary({ enabled, ttlMs, sampled }: ProjectSettings['cache']): string {
  if (!enabled) return 'Off';
  return `On, responses are kept for ${formatDuration(ttlMs)}${sampled ? ', also sampled ones' : ''}`;
}

function settingsOf({ project }: ConsoleContext) {
  const { time_zone, may_call, monthly_cap, on_budget_store_down, cache, cache_sampled, error_codes } = toSettingsJson(project.settings);
  return { name: project.name, time_zone, may_call, monthly_cap, on_budget_store_down, cache, cache_sampled, error_codes };
}

function projectForm({ onBudgetStoreDown }: ProjectSettingsDeps, context: ConsoleContext, rejected?: SubmittedForm): PageContent {
  const current = settingsOf(context);
  const rebased = rebaseSettings(rejected?.form, editOf, current);
  const form = rejected?.form ?? toForm(current);
  const filled = fillFields(form, rejected?.errors ?? noErrors);
  const path = projectPath(context, '/project');
  return {
    kind: 'page',
    title: 'Edit project settings',
    breadcrumbs: [{ label: 'Project settings', href: path }],
    content: html`${rebased.notice}${renderForm({
      context,
      action: `${path}/edit`,
      submit: 'Save',
      cancelHref: path,
      fields: [
        settingsField(rebased.read),
        textField({ ...filled('name'), label: 'Name', required: true, maxLength: 200, autocomplete: 'off' }),
        textField({
          ...filled('time_zone'),
          label: 'Time zone of reports',
          hint: 'Days of charts and lists are days of this zone. Windows of ceilings are in UTC.',
          required: true,
          suggestions: ['UTC', ...Intl.supportedValuesOf('timeZone')],
          autocomplete: 'off',
        }),
        fieldset('Calls', [
          checkboxField({
            name: 'may_call',
            label: 'The project may send calls',
            checked: form.has('may_call'),
            hint: 'When off, every call is refused with 402.',
          }),
          textField({
            ...filled('monthly_cap'),
            label: 'Monthly cap',
            ...{ type: 'number', min: 0, step: 'any', unit: 'USD', placeholder: 'unlimited' },
          }),
          outageField({
            ...filled('on_budget_store_down'),
            inherited: { from: 'deployment', policy: onBudgetStoreDown() },
            hint: 'When the database cannot be reached, ceilings cannot be checked. A key may choose otherwise.',
          }),
          checkboxField({
            name: 'error_codes',
            label: "Errors have the vendor's code where it names one",
            checked: form.has('error_codes'),
            hint: "For clients that otherwise don't notice that a prompt is too long.",
          }),
        ]),
        fieldset('Response cache', [
          checkboxField({
            name: 'cache.enabled',
            label: 'Answer identical calls of chat and messages from the cache',
            checked: form.has('cache.enabled'),
          }),
          textField({
            ...filled('cache.ttl_seconds'),
            label: 'Responses are kept for',
            required: true,
            ...{ type: 'number', min: 1, max: 86_400, step: 1, unit: 'seconds' },
          }),
          checkboxField({
            name: 'cache_sampled',
            label: 'Also answer calls that ask for sampling',
            checked: form.has('cache_sampled'),
            hint: 'Calls with a temperature above 0, or with n above 1, then get the same response again.',
          }),
        ]),
      ],
    })}`,
  };
}

function editOf(form: URLSearchParams): SettingsEdit {
  return compareSettings(parseSettingsField(form), {
    name: form.get('name') ?? '',
    time_zone: form.get('time_zone')?.trim() ?? '',
    may_call: form.has('may_call'),
    monthly_cap: numberOrNull(form, 'monthly_cap'),
    on_budget_store_down: textOrNull(form, 'on_budget_store_down'),
    cache: { enabled: form.has('cache.enabled'), ttl_seconds: numberOrNull(form, 'cache.ttl_seconds') },
    cache_sampled: form.has('cache_sampled'),
    error_codes: form.has('error_codes') ? 'vendor' : 'gateway',
  });
}

function toForm({ name, time_zone, monthly_cap, on_budget_store_down, cache, ...flags }: ReturnType<typeof settingsOf>): URLSearchParams {
  return new URLSearchParams({
    ...{ name, time_zone, 'cache.ttl_seconds': String(cache.ttl_seconds) },
    ...(monthly_cap !== null && { monthly_cap: String(monthly_cap) }),
    ...(on_budget_store_down !== null && { on_budget_store_down }),
    ...(flags.may_call && { may_call: 'on' }),
    ...(cache.enabled && { 'cache.enabled': 'on' }),
    ...(flags.cache_sampled && { cache_sampled: 'on' }),
    ...(flags.error_codes === 'vendor' && { error_codes: 'on' }),
  });
}
