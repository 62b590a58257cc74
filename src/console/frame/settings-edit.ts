/**
 * Lets several people edit settings at the same time. The form contains the settings as they were when it was opened.
 * We only save the settings that the editor has changed, and only if nobody else has changed them since. Otherwise we
 * show the form again with the differences and the editor's input.
 */
import { isDeepStrictEqual } from 'node:util';
import { gatewayError } from '../../core/errors.ts';
import { isObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import { fieldLabel } from './field-labels.ts';
import { notice } from './figures.ts';
import { type Html, html } from './html.ts';
import { formatSetting } from './values.ts';

export type Settings = Readonly<Record<string, unknown>>;

const fieldName = 'read';

export function settingsField(settings: Settings): Html {
  return html`<input type="hidden" name="${fieldName}" value="${JSON.stringify(settings)}">`;
}

/** Returns the settings from when the form was opened. Throws `bad_request` if the field is missing or invalid. */
export function parseSettingsField(form: URLSearchParams): Settings {
  const read = parseJson(form.get(fieldName) ?? '');
  if (!isObject(read)) throw gatewayError('bad_request', { message: 'the form is incomplete; reload the page and try again' });
  return read;
}

export interface SettingsEdit<Submitted extends Settings = Settings> {
  readonly change: Partial<Submitted>;
  /**
   * The settings that the editor saw, including unchanged ones. The change is only saved if all of them are still
   * current.
   */
  readonly read: Settings;
}

export function compareSettings<Submitted extends Settings>(read: Settings, submitted: Submitted): SettingsEdit<Submitted> {
  const change: Partial<Submitted> = {};
  for (const name in submitted) if (!isDeepStrictEqual(submitted[name], read[name])) change[name] = submitted[name];
  return { change, read: pick(read, Object.keys(change)) };
}

export function auditOf({ change, read }: SettingsEdit): Settings {
  return Object.fromEntries(Object.entries(change).map(([name, to]) => [name, { from: read[name] ?? null, to }]));
}

/**
 * Prepares a settings form. `sent` is the rejected input if we show the form again. In that case, the notice lists what
 * somebody else has changed since the form was opened, and the next submission may overwrite these changes, because the
 * editor has now seen them. `read` contains the settings to compare the next submission with.
 */
export function rebaseSettings(
  sent: URLSearchParams | undefined,
  editOf: (form: URLSearchParams) => SettingsEdit,
  current: Settings,
): { readonly read: Settings; readonly notice: Html | '' } {
  if (!sent) return { read: current, notice: '' };
  const read = parseSettingsField(sent);
  const names = Object.keys(editOf(sent).read);
  const changed = compareSettings(pick(read, names), pick(current, names));
  const lines = Object.keys(changed.change).flatMap((name) => describeChange(name, read[name], current[name]));
  return { read: { ...read, ...pick(current, names) }, notice: lines.length === 0 ? '' : changesNotice(lines) };
}

function changesNotice(lines: readonly Html[]): Html {
  return notice(
    html`Your input is unchanged below. Save again to replace these values, or reload the page to discard your input.<ul>${lines.map((line) => html`<li>${line}</li>`)}</ul>`,
    'warning',
    'Someone else saved these settings after you opened the form',
  );
}

function describeChange(name: string, before: unknown, after: unknown): Html[] {
  if (isObject(before) && isObject(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return names.flatMap((member) =>
      isDeepStrictEqual(before[member], after[member]) ? [] : describeChange(`${name}.${member}`, before[member], after[member]),
    );
  }
  return [html`${fieldLabel(name)}: was ${formatValue(before)}, is now ${formatValue(after)}`];
}

function formatValue(value: unknown): Html | string {
  if (value === null || value === undefined) return 'not set';
  if (Array.isArray(value) && value.length === 0) return 'empty';
  return html`<code>${formatSetting(value)}</code>`;
}

function pick(settings: Settings, names: readonly string[]): Settings {
  return Object.fromEntries(names.map((name) => [name, settings[name]]));
}
