/** Renders the form for a new key or an existing one, and the page that shows a new key once. */

import { gatewayError } from '../../core/errors.ts';
import { isNewId, newId, timeOf } from '../../core/ids.ts';
import { isObject } from '../../core/json/narrow.ts';
import { formatTime } from '../../core/time.ts';
import { fromLocalTime, isTimeZone } from '../../core/time-zone.ts';
import type { StoreDownPolicy } from '../../core/windows.ts';
import { type KeyRecord, toKeyInputJson } from '../../keys/key-record.ts';
import type { IssuedKey } from '../../keys/keyring.ts';
import type { KeyModelState } from '../../routing/key-models.ts';
import { ceilingFields, readLimit } from '../frame/ceilings.ts';
import { codeBlock, fieldset, fillFields, notice, form as renderForm, section, textArea, textField } from '../frame/components.ts';
import type { FieldErrors } from '../frame/field-errors.ts';
import { listOf, numberOrNull, textOrNull } from '../frame/form-values.ts';
import { type Html, html } from '../frame/html.ts';
import { outageField } from '../frame/outage.ts';
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
import { formatTimeIn, shellQuote } from '../frame/values.ts';

interface NewKeyOptions {
  /** The policy in gateway.yaml, which applies if neither the key nor the project has one. */
  readonly onBudgetStoreDown: StoreDownPolicy;
  readonly errors: FieldErrors;
  /** The key to edit, with the settings that the form is compared with. Absent for a new key. */
  readonly edited?: { readonly record: KeyRecord; readonly read: Settings; readonly notice: Html | '' };
}

export function newKeyPage(context: ConsoleContext, form: URLSearchParams, options: NewKeyOptions): PageContent {
  const { onBudgetStoreDown, errors, edited } = options;
  const filled = fillFields(form, errors);
  const path = projectPath(context, '/keys');
  const keyPath = `${path}/${edited?.record.prefix}`;
  const zone = zoneOf(form, context.zone);
  return {
    kind: 'page',
    title: edited ? `Edit ${edited.record.name}` : 'New key',
    breadcrumbs: [{ label: 'Keys', href: path }, ...(edited ? [{ label: edited.record.name, href: keyPath }] : [])],
    content: html`${edited?.notice ?? ''}${renderForm({
      context,
      action: edited ? `${keyPath}/edit` : path,
      submit: edited ? 'Save' : 'Create key',
      cancelHref: edited ? keyPath : path,
      fields: [
        edited ? settingsField(edited.read) : newKeyField(context, form),
        html`<input type="hidden" name="zone" value="${zone}">`,
        textField({
          ...filled('name'),
          label: 'Name',
          hint: 'Where the key is used, such as the name of a service.',
          required: true,
          maxLength: 200,
          autocomplete: 'off',
          autofocus: !edited,
        }),
        textArea({
          ...filled('models'),
          label: 'Models and tiers',
          hint: 'One a line: a tier, a model name, or provider/model. Leave empty to allow all.',
          rows: 3,
          code: true,
        }),
        textField({
          ...filled('required_tags'),
          label: 'Required tags',
          hint: 'The key only uses providers that have all of these tags, such as eu or zero-retention. Separate tags with spaces.',
        }),
        fieldset(
          'Ceilings',
          [ceilingFields({ form, errors, withRates: true })],
          `Calls beyond a ceiling are refused with 429. Leave a field empty for no limit.${edited ? ' Usage that was counted before the change still counts. Keys that were rotated share their ceilings, so the new ones also apply to the keys that this one replaced.' : ''}`,
        ),
        outageField({
          ...filled('on_budget_store_down'),
          inherited: { from: 'project', policy: context.project.settings.onBudgetStoreDown ?? onBudgetStoreDown },
          hint: 'When the database cannot be reached, ceilings cannot be checked. A prepaid key should refuse calls then.',
        }),
        textField({
          ...filled('default_max_output_tokens'),
          label: 'Default output limit',
          hint: 'Sent to the vendor with calls that set no limit of their own. Each call then reserves no more than that of a cost ceiling.',
          ...{ type: 'number', min: 1, step: 1, unit: 'tokens', placeholder: 'None' },
        }),
        textField({
          ...filled('expires_at'),
          label: `Expires (${zone})`,
          hint: 'Leave empty for a key that does not expire.',
          type: 'datetime-local',
        }),
      ],
    })}`,
  };
}

export function editKeyPage(
  context: ConsoleContext,
  record: KeyRecord,
  { onBudgetStoreDown, rejected, errors }: NewKeyOptions & { readonly rejected: URLSearchParams | undefined },
): PageContent {
  const current = toKeyInputJson(record);
  const rebased = rebaseSettings(rejected, (form) => readKeyEdit(form, context.zone), current);
  const edited = { record, ...rebased };
  return newKeyPage(context, rejected ?? toForm(current, context.zone), { onBudgetStoreDown, errors, edited });
}

/** Returns what the editor has changed. `ownZone` is the person's current time zone. */
export function readKeyEdit(form: URLSearchParams, ownZone: string): SettingsEdit {
  const read = parseSettingsField(form);
  const submitted = readKeyInput(form, ownZone);
  // The form shows the expiry without seconds. If it hasn't been edited, keep the stored time, which may be more
  // precise.
  const isSameTime = form.get('expires_at') === localTimeOf(read.expires_at, zoneOf(form, ownZone));
  return compareSettings(read, isSameTime ? { ...submitted, expires_at: read.expires_at } : submitted);
}

function toForm({ expires_at: expiresAt, ...settings }: Settings, zone: string): URLSearchParams {
  const form = new URLSearchParams({ expires_at: localTimeOf(expiresAt, zone) });
  const add = (name: string, value: unknown): void => {
    if (Array.isArray(value)) form.set(name, value.join(name === 'models' ? '\n' : ' '));
    else if (isObject(value)) for (const [member, part] of Object.entries(value)) add(`${name}.${member}`, part);
    else if (value !== null) form.set(name, String(value));
  };
  for (const [name, value] of Object.entries(settings)) add(name, value);
  return form;
}

/**
 * Returns the time zone in which the form shows the expiry. The person may have switched to another time zone since
 * they opened the form.
 */
function zoneOf(form: URLSearchParams, ownZone: string): string {
  const shown = form.get('zone');
  return shown !== null && isTimeZone(shown) ? shown : ownZone;
}

/**
 * Throws `bad_request` if the form contains an unknown time zone. Otherwise we'd read the expiry in the person's own
 * time zone.
 */
export function assertTimeZone(form: URLSearchParams): void {
  const zone = form.get('zone');
  if (form.get('expires_at') && zone !== null && !isTimeZone(zone))
    throw gatewayError('bad_request', {
      issues: [{ path: 'expires_at', message: 'was entered in an unknown time zone; open the form again' }],
    });
}

function localTimeOf(instant: unknown, zone: string): string {
  return typeof instant === 'string' ? formatTimeIn(Date.parse(instant), zone, 'minute').replace(' ', 'T') : '';
}

/**
 * The form already contains the id of the new key. If the person reloads the page with the new key, the browser sends
 * the form again, and we can tell that this key exists.
 */
export function newKeyField({ now }: ConsoleContext, form: URLSearchParams): Html {
  return html`<input type="hidden" name="key_id" value="${readNewKeyId(form, now) ?? newId(now)}">`;
}

/**
 * Returns the id for the new key. Ids that don't come from `newId` are ignored, because somebody could otherwise take
 * the fixed id that the gateway uses for its own calls.
 */
export function readNewKeyId(form: URLSearchParams, now: number): string | undefined {
  const id = form.get('key_id') ?? '';
  return isNewId(id) && timeOf(id) <= now ? id.toLowerCase() : undefined;
}

/** Converts the form to the body of the request that issues a key. `ownZone` is the person's current time zone. */
export function readKeyInput(form: URLSearchParams, ownZone: string): Record<string, unknown> {
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
    expires_at: toInstant(textOrNull(form, 'expires_at'), zoneOf(form, ownZone)),
  };
}

/** Converts a local time to RFC 3339. Returns anything else unchanged, because the store rejects it. */
function toInstant(text: string | null, zone: string): string | null {
  const match = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::\d\d)?$/.exec(text ?? '');
  // If the day doesn't exist, e.g. February 30, don't convert it to another day.
  if (text === null || !match || !isTime(text.slice(0, 16))) return text;
  const [year = 0, month = 1, day = 1, hour = 0, minute = 0] = match.slice(1).map(Number);
  return formatTime(fromLocalTime(zone, { year, month, day, hour, minute }));
}

function isTime(text: string): boolean {
  const time = new Date(`${text}Z`);
  return !Number.isNaN(time.getTime()) && time.toISOString().startsWith(text);
}

/** This is the only page that ever shows the secret. */
export function issuedKeyPage(
  context: ConsoleContext,
  { secret, record }: IssuedKey,
  states: ReadonlyMap<string, KeyModelState>,
): PageContent {
  const namesOf = (...wanted: readonly KeyModelState[]): readonly string[] =>
    [...states].filter(([, state]) => wanted.includes(state)).map(([name]) => name);
  const uncatalogued = namesOf('uncatalogued', 'unknown');
  const forbidden = namesOf('not_allowed');
  const path = projectPath(context, '/keys');
  const model = record.models?.[0] ?? 'auto';
  return {
    kind: 'page',
    title: `Key ${record.name}`,
    breadcrumbs: [{ label: 'Keys', href: path }],
    actions: html`<a class="button" href="${path}/${record.prefix}">Done</a>`,
    content: html`${notice('Only its hash is stored: nobody can show it again. Copy it before you leave this page.', 'warning', 'This is the only time you see this key')}${
      uncatalogued.length === 0
        ? ''
        : notice(
            html`The key may use ${codeList(uncatalogued)}, so check the spelling.`,
            'warning',
            'The catalog does not list every model of this key',
          )
    }${
      forbidden.length === 0
        ? ''
        : notice(
            html`The key may use ${codeList(forbidden)}, but the project may not use a provider for it. Allow one under <a href="${projectPath(context, '/routing')}">Routing</a>.`,
            'warning',
            'Calls with this key cannot use every model in its list',
          )
    }
${section('Key', codeBlock(secret, 'The key'))}
${section('Try it', codeBlock(curlLine(context.origin, secret, model), 'A call with the key, as a command'), { hint: 'Paste this into a terminal.' })}
${section('Base URL', html`${codeBlock(`${context.origin}/v1`, 'Base URL for SDKs')}`, { hint: 'For OpenAI SDKs. Anthropic SDKs take the URL without /v1.' })}`,
  };
}

function codeList(names: readonly string[]): Html {
  return html`${names.map((name, index) => html`${index === 0 ? '' : ', '}<code>${name}</code>`)}`;
}

function curlLine(origin: string, secret: string, model: string): string {
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] });
  return `curl ${origin}/v1/chat/completions \\
  -H 'authorization: Bearer ${secret}' \\
  -H 'content-type: application/json' \\
  -d ${shellQuote(body)}`;
}
