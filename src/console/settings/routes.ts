/**
 * Handles the project's memory settings. If a change would delete more than before, a second page shows what will be
 * deleted and asks for confirmation. The change takes effect after a day, and any member can cancel it until then.
 */
import { changedMembers } from '../../core/changed-members.ts';
import { gatewayError } from '../../core/errors.ts';
import type { Clock } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { countKeptUnlearned, previewRetention } from '../../memory/records/deletion-rule.ts';
import { deletionNoticeMs, type MemorySettingsStore } from '../../memory/records/settings.ts';
import {
  isSameRule,
  type MemorySettings,
  parseMemorySettingsChange,
  type ShownMemorySettings,
} from '../../memory/records/settings-schema.ts';
import { assertNotModified } from '../../projects/optimistic-lock.ts';
import { noErrors, type SubmittedForm } from '../frame/field-errors.ts';
import { html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageContent, post } from '../frame/route.ts';
import { compareSettings, parseSettingsField, rebaseSettings, type Settings, type SettingsEdit } from '../frame/settings-edit.ts';
import { formatSenders, parseSenders } from './sender-list.ts';
import {
  confirmationOf,
  confirmationPage,
  describePending,
  describeSaved,
  describeUnlearned,
  type StricterRule,
  settingsPage,
} from './settings-page.ts';

export interface SettingsPageDeps {
  readonly settings: Pick<MemorySettingsStore, 'read' | 'change'>;
  readonly queries: Queries;
  readonly clock: Clock;
  readonly hasMemoryModel: (projectId: string) => Promise<boolean>;
}

export function createSettingsRoutes(deps: SettingsPageDeps): readonly ConsoleRoute[] {
  const { settings, queries, clock, hasMemoryModel } = deps;
  const showSettings = async (context: ConsoleContext, current: ShownMemorySettings, rejected?: SubmittedForm): Promise<PageContent> => {
    const { id } = context.project;
    const kept = current.delete_conversations_after_days === null ? 0 : await countKeptUnlearned({ database: queries, clock }, id);
    const warning = describeUnlearned(context, { current, kept, hasModel: await hasMemoryModel(id) });
    // Also compare the planned deletion. Saving a new deletion period would replace it, so the editor has to notice if
    // somebody else has changed it.
    const { read, notice: conflict } = rebaseSettings(rejected?.form, editOf, { ...current });
    const submitted = rejected ?? { form: toFields(current), errors: noErrors };
    return settingsPage(context, { submitted, read, notices: html`${conflict}${describePending(context, current)}${warning}` });
  };
  return [
    get('/settings', 'member', async (context) => showSettings(context, await settings.read(context.project.id))),
    post('/settings/cancel-deletion', { access: 'member', action: 'memory.cancel_deletion' }, async (context) => {
      const { previous } = await settings.change(context.project.id, { pending_deletion: null });
      return {
        kind: 'redirect',
        to: projectPath(context, '/settings'),
        notice: previous.pending_deletion ? 'The deletion is cancelled.' : 'No deletion was planned.',
        audit: { cancelled: previous.pending_deletion },
      };
    }),
    post(
      '/settings',
      {
        access: 'member',
        action: 'memory.update',
        invalidForm: async (context, fields, errors) => {
          const before = await settings.read(context.project.id);
          const rule = newRuleOf(before, fields);
          if (rule === null) return showSettings(context, before, { form: fields, errors });
          const effectiveAt = context.now + deletionNoticeMs;
          const { delete_conversations_after_days: days, delete_unlearned: unlearned } = rule;
          const preview = await previewRetention(
            { database: queries, clock: { now: () => effectiveAt } },
            context.project.id,
            days,
            unlearned,
          );
          return confirmationPage(context, fields, { before, rule, effectiveAt, preview });
        },
      },
      async (context, fields) => {
        const { id } = context.project;
        const before = await settings.read(id);
        const edit = editOf(fields);
        assertNotModified(before, edit.read);
        const rule = newRule(before, edit.change);
        if (rule !== null && fields.get('confirmed_days') !== confirmationOf(rule))
          throw gatewayError('bad_request', { message: 'nothing has changed yet; confirm the deletion period' });
        const { previous, settings: next } = await settings.change(id, edit.change, (current) => assertNotModified(current, edit.read));
        const changed = changedMembers(previous, next);
        return {
          kind: 'redirect',
          to: projectPath(context, '/settings'),
          notice: Object.keys(changed).length === 0 ? 'Nothing was changed.' : describeSaved(context, changed, next),
          audit: { changed },
        };
      },
    ),
  ];
}

function toFields(settings: MemorySettings): URLSearchParams {
  return new URLSearchParams({
    ...(settings.enabled && { enabled: 'on' }),
    only_senders: formatSenders(settings.only_senders),
    delete_conversations_after_days: String(settings.delete_conversations_after_days ?? ''),
    ...(settings.delete_unlearned && { delete_unlearned: 'on' }),
    batch_of: String(settings.batch_of),
    at_least_every_minutes: String(settings.at_least_every_minutes),
    recall_budget_tokens: String(settings.recall_budget_tokens ?? ''),
  });
}

function editOf(fields: URLSearchParams): SettingsEdit {
  const toOptionalNumber = (name: string): number | null => (fields.get(name)?.trim() ? toNumber(fields.get(name)) : null);
  const read = parseSettingsField(fields);
  const rule = {
    delete_conversations_after_days: toOptionalNumber('delete_conversations_after_days'),
    delete_unlearned: fields.has('delete_unlearned'),
  };
  const edit = compareSettings(read, {
    enabled: fields.has('enabled'),
    only_senders: parseSenders(fields.get('only_senders') ?? ''),
    ...rule,
    batch_of: toNumber(fields.get('batch_of')),
    at_least_every_minutes: toNumber(fields.get('at_least_every_minutes')),
    recall_budget_tokens: toOptionalNumber('recall_budget_tokens'),
  });
  if (!('delete_conversations_after_days' in edit.change || 'delete_unlearned' in edit.change)) return edit;
  // The form shows both parts of the deletion rule, so if one of them changes, we save both. The part that the editor
  // left alone would otherwise come from the planned rule if the other one is the same in both.
  const { delete_conversations_after_days, delete_unlearned, pending_deletion = null } = read;
  return {
    change: { ...edit.change, ...rule },
    read: { ...edit.read, delete_conversations_after_days, delete_unlearned, pending_deletion },
  };
}

/** Returns NaN for an empty field, which the validation rejects. */
function toNumber(text: string | null): number {
  return text === null || text.trim() === '' ? Number.NaN : Number(text);
}

/**
 * Returns the deletion rule that this change would introduce. Returns null if it wouldn't delete more than the current
 * one, or if the same rule is already pending. Throws `bad_request` if the change is invalid.
 */
function newRule(before: ShownMemorySettings, change: Settings): StricterRule | null {
  const { stricter } = parseMemorySettingsChange(change)(before);
  return stricter && !(before.pending_deletion && isSameRule(before.pending_deletion, stricter)) ? stricter : null;
}

/**
 * Returns the `newRule` of a submitted form. Also returns null if the form is invalid, or if somebody else has changed
 * the settings in the meantime.
 */
function newRuleOf(before: ShownMemorySettings, fields: URLSearchParams): StricterRule | null {
  try {
    const { change, read } = editOf(fields);
    assertNotModified(before, read);
    return newRule(before, change);
  } catch {
    return null;
  }
}
