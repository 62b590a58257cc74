/** Renders the form for a new key, and the page that shows the new key once. */

import { formatTime } from '../../core/time.ts';
import { fromLocalTime } from '../../core/time-zone.ts';
import type { StoreDownPolicy } from '../../core/windows.ts';
import type { IssuedKey } from '../../keys/keyring.ts';
import { ceilingFields, readLimit } from '../frame/ceilings.ts';
import { codeBlock, fieldset, notice, form as renderForm, section, textArea, textField } from '../frame/components.ts';
import type { FieldErrors } from '../frame/field-errors.ts';
import { listOf, numberOrNull, textOrNull } from '../frame/form-values.ts';
import { html } from '../frame/html.ts';
import { outageField } from '../frame/outage.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';

interface NewKeyOptions {
  /** The configuration file's default for keys and projects that don't choose a policy. */
  readonly onBudgetStoreDown: StoreDownPolicy;
  readonly errors: FieldErrors;
}

export function newKeyPage(context: ConsoleContext, form: URLSearchParams, { onBudgetStoreDown, errors }: NewKeyOptions): PageContent {
  const path = projectPath(context, '/keys');
  return {
    kind: 'page',
    title: 'New key',
    breadcrumbs: [{ label: 'Keys', href: path }],
    content: renderForm({
      context,
      action: path,
      submit: 'Create key',
      cancelHref: path,
      fields: [
        textField({
          name: 'name',
          label: 'Name',
          hint: 'Where the key is used, such as the name of a service.',
          value: form.get('name'),
          error: errors.of('name'),
          required: true,
          maxLength: 200,
          autocomplete: 'off',
          autofocus: true,
        }),
        textArea({
          name: 'models',
          label: 'Models and tiers',
          hint: 'One a line: a tier, a model name, or provider/model. Leave empty to allow all.',
          value: form.get('models') ?? '',
          error: errors.of('models'),
          rows: 3,
          code: true,
        }),
        textField({
          name: 'required_tags',
          label: 'Required tags',
          hint: 'Only providers with all of these tags get calls of the key, such as eu or zero-retention. Separate them by spaces.',
          value: form.get('required_tags'),
          error: errors.of('required_tags'),
        }),
        fieldset(
          'Ceilings',
          [ceilingFields({ form, errors, withRates: true })],
          'Calls beyond a ceiling are refused with 429. Leave a field empty for no limit.',
        ),
        outageField({
          value: form.get('on_budget_store_down'),
          error: errors.of('on_budget_store_down'),
          inherited: { from: 'project', policy: context.project.settings.onBudgetStoreDown ?? onBudgetStoreDown },
          hint: 'When the database cannot be reached, ceilings cannot be checked. A prepaid key should refuse calls then.',
        }),
        textField({
          name: 'default_max_output_tokens',
          label: 'Default output limit',
          hint: 'Sent to the vendor with calls that set no limit of their own. Each call then reserves no more than that of a cost ceiling.',
          value: form.get('default_max_output_tokens'),
          error: errors.of('default_max_output_tokens'),
          ...{ type: 'number', min: 1, step: 1, unit: 'tokens', placeholder: 'None' },
        }),
        textField({
          name: 'expires_at',
          label: `Expires (${context.zone})`,
          hint: 'Leave empty for a key that does not expire.',
          type: 'datetime-local',
          value: form.get('expires_at'),
          error: errors.of('expires_at'),
        }),
      ],
    }),
  };
}

/** Converts the form to the body of the API request that issues a key. */
export function readKeyInput(form: URLSearchParams, zone: string): Record<string, unknown> {
  const models = listOf(form, 'models');
  const ceilings = {
    calls: readLimit(form, 'calls'),
    cost: readLimit(form, 'cost'),
    rpm: readLimit(form, 'rpm'),
    tpm: readLimit(form, 'tpm'),
  };
  const windows = (['calls', 'cost'] as const).filter((name) => ceilings[name] !== null && form.has(`windows.${name}`));
  return {
    name: form.get('name') ?? '',
    models: models.length === 0 ? null : models,
    required_tags: listOf(form, 'required_tags'),
    ceilings,
    windows: Object.fromEntries(windows.map((name) => [name, form.get(`windows.${name}`)])),
    on_budget_store_down: textOrNull(form, 'on_budget_store_down'),
    default_max_output_tokens: numberOrNull(form, 'default_max_output_tokens'),
    expires_at: toInstant(textOrNull(form, 'expires_at'), zone),
  };
}

/** Converts a local time to RFC 3339. We return any other text unchanged, so that the store can reject it. */
function toInstant(text: string | null, zone: string): string | null {
  const match = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::\d\d)?$/.exec(text ?? '');
  if (!match) return text;
  const [year = 0, month = 1, day = 1, hour = 0, minute = 0] = match.slice(1).map(Number);
  return formatTime(fromLocalTime(zone, { year, month, day, hour, minute }));
}

/** Renders the only page that ever contains a key. */
export function issuedKeyPage(context: ConsoleContext, { secret, record }: IssuedKey): PageContent {
  const path = projectPath(context, '/keys');
  const model = record.models?.[0] ?? 'auto';
  return {
    kind: 'page',
    title: `Key ${record.name}`,
    breadcrumbs: [{ label: 'Keys', href: path }],
    actions: html`<a class="button" href="${path}/${record.prefix}">Done</a>`,
    content: html`${notice('Only its hash is stored: nobody can show it again. Copy it before you leave this page.', 'warning', 'This is the only time you see this key')}
${section('Key', codeBlock(secret, 'The key'))}
${section('Try it', codeBlock(curlLine(context.url.origin, secret, model), 'A call with the key, as a command'), { hint: 'Paste this into a terminal.' })}
${section('Base URL', html`${codeBlock(`${context.url.origin}/v1`, 'Base URL for SDKs')}`, { hint: 'For OpenAI SDKs. Anthropic SDKs take the URL without /v1.' })}`,
  };
}

function curlLine(origin: string, secret: string, model: string): string {
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] });
  return `curl ${origin}/v1/chat/completions \\
  -H 'authorization: Bearer ${secret}' \\
  -H 'content-type: application/json' \\
  -d '${body.replaceAll("'", "'\\''")}'`;
}
