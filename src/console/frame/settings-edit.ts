/**
 * Editing of settings by several people at once. A form carries the settings as its editor read them. Only members that the editor changed are
 * written, and only if nobody else changed them meanwhile; otherwise the form shows what changed and keeps the editor's input.
 */
import { isDeepStrictEqual } from 'node:util';
import { gatewayError } from '../../core/errors.ts';
import { isObject } from '../../core/json/narrow.ts';
import { notice } from './figures.ts';
import { type Html, html } from './html.ts';
import { formatSetting } from './values.ts';

/** Settings by member, as JSON. */
export type Settings = Readonly<Record<string, unknown>>;

const fieldName = 'read';

export function settingsField(settings: Settings): Html {
  return html`<input type="hidden" name="${fieldName}" value="${JSON.stringify(settings)}">`;
}

/** The settings that the form was filled with. Throws `bad_request`. */
export function parseSettingsField(form: URLSearchParams): Settings {
  try {
    const read: unknown = JSON.parse(form.get(fieldName) ?? '');
    if (isObject(read)) return read;
  } catch {
    // The same error as for JSON that is not an object.
  }
  throw gatewayError('bad_request', { message: 'the form is incomplete: open the page again' });
}

export interface SettingsEdit {
  /** The members that the editor changed. Empty when nothing was. */
  readonly change: Settings;
  /** Their values as the editor read them. */
  readonly read: Settings;
}

export function compareSettings(read: Settings, submitted: Settings): SettingsEdit {
  const names = Object.keys(submitted).filter((name) => !isDeepStrictEqual(submitted[name], read[name]));
  return { change: pick(submitted, names), read: pick(read, names) };
}

/** For the audit log: the old and the new value of each changed member. */
export function auditOf({ change, read }: SettingsEdit): Settings {
  return Object.fromEntries(Object.entries(change).map(([name, to]) => [name, { from: read[name] ?? null, to }]));
}

/**
 * For a form that is shown, or shown again with what was sent: the settings to compare with when it is sent next, and what other people changed
 * of the members that the editor changed. The editor has then seen those changes.
 */
export function rebaseSettings(
  sent: URLSearchParams | undefined,
  editOf: (form: URLSearchParams) => SettingsEdit,
  current: Settings,
): { readonly read: Settings; readonly notice: Html | '' } {
  if (!sent) return { read: current, notice: '' };
  const read = parseSettingsField(sent);
  const names = Object.keys(editOf(sent).change);
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

/** One line per changed value; objects are compared by member. */
function describeChange(name: string, before: unknown, after: unknown): Html[] {
  if (isObject(before) && isObject(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return names.flatMap((member) =>
      isDeepStrictEqual(before[member], after[member]) ? [] : describeChange(`${name}.${member}`, before[member], after[member]),
    );
  }
  return [html`<code>${name}</code>: was ${formatValue(before)}, is now ${formatValue(after)}`];
}

function formatValue(value: unknown): Html | string {
  if (value === null || value === undefined) return 'not set';
  if (Array.isArray(value) && value.length === 0) return 'empty';
  return html`<code>${formatSetting(value)}</code>`;
}

function pick(settings: Settings, names: readonly string[]): Settings {
  return Object.fromEntries(names.map((name) => [name, settings[name]]));
}
