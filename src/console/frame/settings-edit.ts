/**
 * Lets several people edit settings at the same time. The form remembers the settings as they were when the editor
 * opened it. We only write what the editor changed, and only if nobody else has changed the same members since. If
 * somebody has, the form tells the editor what's different and keeps their input.
 */
import { isDeepStrictEqual } from 'node:util';
import { gatewayError } from '../../core/errors.ts';
import { isObject } from '../../core/json/narrow.ts';
import { notice } from './figures.ts';
import { type Html, html } from './html.ts';
import { formatSetting } from './values.ts';

/** The settings as JSON values, by the name of their field. */
export type Settings = Readonly<Record<string, unknown>>;

const fieldName = 'read';

export function settingsField(settings: Settings): Html {
  return html`<input type="hidden" name="${fieldName}" value="${JSON.stringify(settings)}">`;
}

/**
 * Returns the settings that the editor saw when they opened the form. Throws `bad_request` if the field is missing or
 * invalid.
 */
export function parseSettingsField(form: URLSearchParams): Settings {
  try {
    const read: unknown = JSON.parse(form.get(fieldName) ?? '');
    if (isObject(read)) return read;
  } catch {
    // Fall through, because this is the same error as for JSON that isn't an object.
  }
  throw gatewayError('bad_request', { message: 'the form is incomplete: open the page again' });
}

export interface SettingsEdit {
  /** The new values of the members that the editor changed. */
  readonly change: Settings;
  /**
   * The settings that the editor saw, which can be more than they changed. We only save the change if all of them are
   * still current.
   */
  readonly read: Settings;
}

export function compareSettings(read: Settings, submitted: Settings): SettingsEdit {
  const names = Object.keys(submitted).filter((name) => !isDeepStrictEqual(submitted[name], read[name]));
  return { change: pick(submitted, names), read: pick(read, names) };
}

/** Returns the old and the new value of every changed member, for the audit log. */
export function auditOf({ change, read }: SettingsEdit): Settings {
  return Object.fromEntries(Object.entries(change).map(([name, to]) => [name, { from: read[name] ?? null, to }]));
}

/**
 * Prepares a form that somebody opens, or that we show again because we rejected the input in `sent`. The next
 * submission will be compared with `read`.
 *
 * If somebody else has changed the same members in the meantime, `notice` lists their changes. The editor sees them
 * there, so the next submission may overwrite them.
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

/** Describes a change with one line per value, going into objects. */
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
