/**
 * Serves the page of the project's memory settings. If a change would delete more than before, people have to confirm
 * it in a second step that says what will be deleted. The change then takes effect after a day, and any member can
 * cancel it until then.
 */
import { changedMembers } from '../../core/changed-members.ts';
import { gatewayError } from '../../core/errors.ts';
import { dayMs } from '../../core/time.ts';
import { type DeletionRule, maxPreviewed, type RetentionPreview } from '../../memory/records/deletion-rule.ts';
import {
  deletionNoticeMs,
  isSameRule,
  type MemorySettings,
  type MemorySettingsStore,
  type ParsedSettingsChange,
  parseMemorySettingsChange,
  type ShownMemorySettings,
} from '../../memory/records/settings.ts';
import { assertNotModified } from '../../projects/optimistic-lock.ts';
import {
  actionButton,
  checkboxField,
  csrfField,
  fieldset,
  form,
  formatCount,
  formatTimeIn,
  notice,
  textField,
  time,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, ConsoleRoute, PageContent } from '../frame/route.ts';
import {
  compareSettings,
  parseSettingsField,
  rebaseSettings,
  type Settings,
  type SettingsEdit,
  settingsField,
} from '../frame/settings-edit.ts';
import { formatSenders, parseSenders } from './sender-list.ts';

export interface SettingsPageDeps {
  readonly settings: Pick<MemorySettingsStore, 'read' | 'change'>;
  /** Previews what the rule would delete if it took effect at the time `at`. */
  readonly previewRetention: (projectId: string, rule: StricterRule, at: number) => Promise<RetentionPreview>;
  /** Counts conversations that we keep past the deletion period because memory hasn't learned from them. */
  readonly countKeptUnlearned: (projectId: string) => Promise<number>;
  /** Reports whether any of the project's memory tiers has a model. */
  readonly hasMemoryModel: (projectId: string) => Promise<boolean>;
}

type StricterRule = NonNullable<ParsedSettingsChange['stricter']>;

export function createSettingsRoutes(deps: SettingsPageDeps): readonly ConsoleRoute[] {
  const { settings, previewRetention, countKeptUnlearned, hasMemoryModel } = deps;
  const showSettings = async (context: ConsoleContext, current: ShownMemorySettings, sent?: URLSearchParams): Promise<PageContent> => {
    const { id } = context.project;
    const kept = current.delete_conversations_after_days === null ? 0 : await countKeptUnlearned(id);
    const warning = describeUnlearned(context, { current, kept, hasModel: await hasMemoryModel(id) });
    const { read, notice: conflict } = rebaseSettings(sent, editOf, toSettings(current));
    const fields = sent ?? toFields(current);
    return settingsPage(context, { fields, read, notices: html`${conflict}${describePending(context, current)}${warning}` });
  };
  return [
    {
      method: 'get',
      path: '/settings',
      access: 'member',
      async handle(context) {
        const current = await settings.read(context.project.id);
        return showSettings(context, current);
      },
    },
    {
      method: 'post',
      path: '/settings/cancel-deletion',
      access: 'member',
      action: 'memory.cancel_deletion',
      async handle(context) {
        const { previous } = await settings.change(context.project.id, { pending_deletion: null });
        return {
          kind: 'redirect',
          to: projectPath(context, '/settings'),
          notice: previous.pending_deletion ? 'The deletion is cancelled.' : 'No deletion was planned.',
          audit: { cancelled: previous.pending_deletion },
        };
      },
    },
    {
      method: 'post',
      path: '/settings',
      access: 'member',
      action: 'memory.update',
      async handle(context, fields) {
        const { id } = context.project;
        const before = await settings.read(id);
        const edit = editOf(fields);
        assertNotModified(before, edit.read);
        const rule = newRule(before, edit.change);
        if (rule !== null && fields.get('confirmed_days') !== confirmationOf(rule))
          throw gatewayError('bad_request', { message: 'nothing is changed yet: confirm the deletion period' });
        const { previous, settings: next } = await settings.change(id, edit.change, (current) => assertNotModified(current, edit.read));
        const changed = changedMembers(previous, next);
        return {
          kind: 'redirect',
          to: projectPath(context, '/settings'),
          notice: Object.keys(changed).length === 0 ? 'Nothing was changed.' : describeSaved(context, changed, next),
          audit: { changed },
        };
      },
      async invalidForm(context, fields) {
        const before = await settings.read(context.project.id);
        const rule = newRuleOf(before, fields);
        if (rule === null) return showSettings(context, before, fields);
        const effectiveAt = context.now + deletionNoticeMs;
        const preview = await previewRetention(context.project.id, rule, effectiveAt);
        return confirmationPage(context, fields, { before, rule, effectiveAt, preview });
      },
    },
  ];
}

/** Returns the fields of the form as text. */
function toFields(settings: MemorySettings): URLSearchParams {
  const {
    enabled,
    only_senders: senders,
    delete_conversations_after_days: days,
    delete_unlearned: unlearned,
    batch_of: batch,
    at_least_every_minutes: minutes,
  } = settings;
  return new URLSearchParams({
    ...(enabled && { enabled: 'on' }),
    only_senders: formatSenders(senders),
    delete_conversations_after_days: days === null ? '' : String(days),
    ...(unlearned && { delete_unlearned: 'on' }),
    batch_of: String(batch),
    at_least_every_minutes: String(minutes),
  });
}

/** Returns the settings as the form remembers them. A planned deletion is one of them, because a new period replaces it. */
function toSettings(settings: ShownMemorySettings): Settings {
  return { ...settings };
}

/** Reads what the editor changed. */
function editOf(fields: URLSearchParams): SettingsEdit {
  const days = fields.get('delete_conversations_after_days')?.trim() ?? '';
  const read = parseSettingsField(fields);
  const edit = compareSettings(read, {
    enabled: fields.has('enabled'),
    only_senders: parseSenders(fields.get('only_senders') ?? ''),
    delete_conversations_after_days: days === '' ? null : Number(days),
    delete_unlearned: fields.has('delete_unlearned'),
    batch_of: toNumber(fields.get('batch_of')),
    at_least_every_minutes: toNumber(fields.get('at_least_every_minutes')),
  });
  const changesRule = 'delete_conversations_after_days' in edit.change || 'delete_unlearned' in edit.change;
  return changesRule ? { ...edit, read: { ...edit.read, pending_deletion: read.pending_deletion ?? null } } : edit;
}

/** Returns NaN for an empty field, which the settings then reject. */
function toNumber(text: string | null): number {
  return text === null || text.trim() === '' ? Number.NaN : Number(text);
}

/**
 * Returns the new rule if the change deletes more than before. Returns null for other changes, and if the same rule
 * is already pending. Throws `bad_request`.
 */
function newRule(before: ShownMemorySettings, change: Settings): StricterRule | null {
  const { stricter } = parseMemorySettingsChange(change)(before);
  return stricter && !(before.pending_deletion && isSameRule(before.pending_deletion, stricter)) ? stricter : null;
}

function confirmationOf({ delete_conversations_after_days: days, delete_unlearned: unlearned }: StricterRule): string {
  return unlearned ? `${days} unlearned` : String(days);
}

/** Works like `newRule` for a form, but also returns null if the form is invalid or somebody else changed the settings. */
function newRuleOf(before: ShownMemorySettings, fields: URLSearchParams): StricterRule | null {
  try {
    const { change, read } = editOf(fields);
    assertNotModified(before, read);
    return newRule(before, change);
  } catch {
    return null; // The page shows the reason above the form.
  }
}

function describeSaved({ zone }: ConsoleContext, changed: object, { pending_deletion: pending }: ShownMemorySettings): string {
  if (pending === null || !('pending_deletion' in changed)) return 'The settings are saved. They apply to every call from now on.';
  return `The settings are saved. The new deletion period takes effect at ${formatTimeIn(Date.parse(pending.effective_at), zone, 'minute')} (${zone}), unless a member cancels it.`;
}

/** Describes the pending deletion. We show this to every member, because any of them can cancel it. */
function describePending(context: ConsoleContext, { pending_deletion: pending }: ShownMemorySettings): Html | string {
  if (pending === null) return '';
  const { delete_conversations_after_days: days, delete_unlearned: unlearned, conversations, effective_at: at } = pending;
  const scope = unlearned ? ', also those that memory has not learned from' : '';
  const cancel = actionButton({ context, action: projectPath(context, '/settings/cancel-deletion'), label: 'Cancel the deletion' });
  return html`${notice(
    html`Conversations are to be deleted after ${countOf(days, 'day', 'days')}${scope}. The first daily cleanup after ${time(Date.parse(at), context.zone, 'minute')} (${context.zone}) deletes <strong>${countOf(conversations, 'conversation', 'conversations')}</strong>. Every member can cancel this until then.`,
    'warning',
    'A deletion is planned',
  )}<div class="actions">${cancel}</div>`;
}

interface Unlearned {
  readonly current: DeletionRule & Pick<MemorySettings, 'enabled'>;
  readonly kept: number;
  readonly hasModel: boolean;
}

/**
 * Explains that conversations outlive the deletion period until memory has learned from them, because people don't
 * expect this.
 */
function describeUnlearned(context: ConsoleContext, { current, kept, hasModel }: Unlearned): Html | string {
  const { delete_conversations_after_days: days, delete_unlearned: unlearned, enabled } = current;
  if (days === null || unlearned || (enabled && hasModel && kept === 0)) return '';
  const count =
    kept === 0
      ? ''
      : html` <strong>${countOf(kept, 'conversation', 'conversations')}</strong> ${kept === 1 ? 'is' : 'are'} kept for longer already.`;
  const whyBehind = hasModel
    ? html`See the <a href="${projectPath(context, '/batches')}">batches</a> for the reason.`
    : 'No tier for memory has a model, so nothing is learned: set one for memory-extract or trivial.';
  const reason = enabled ? whyBehind : 'Nothing is learned while memory is off.';
  return notice(
    html`Conversations that memory has not learned from are kept after the deletion period.${count} ${reason} Or delete what is not learned too, by the setting below.`,
    'warning',
    'The deletion period does not apply to all conversations',
  );
}

interface SettingsView {
  readonly fields: URLSearchParams;
  /** The settings to compare the next submission with. */
  readonly read: Settings;
  readonly notices: Html;
}

function settingsPage(context: ConsoleContext, { fields, read, notices }: SettingsView): PageContent {
  const content = form({
    context,
    action: projectPath(context, '/settings'),
    submit: 'Save',
    fields: [
      settingsField(read),
      checkboxField({
        name: 'enabled',
        label: 'Memory is on',
        checked: fields.has('enabled'),
        hint: 'Records conversations, learns from them, and lets applications save memories. Text of calls is stored either way.',
      }),
      textField({
        name: 'only_senders',
        label: 'Only these senders',
        value: fields.get('only_senders'),
        placeholder: 'All applications',
        hint: 'Names of applications, separated by commas. Others are not recorded, nor are calls that name no application. Recall is not limited.',
      }),
      textField({
        name: 'delete_conversations_after_days',
        label: 'Delete conversations after',
        type: 'number',
        min: 1,
        max: 36_500,
        unit: 'days',
        value: fields.get('delete_conversations_after_days'),
        placeholder: 'Keep',
        hint: 'The daily cleanup deletes conversations whose last turn is older, with their prompts, and memories that were corrected or removed before that time. Empty keeps everything. Live memories stay.',
      }),
      checkboxField({
        name: 'delete_unlearned',
        label: 'Delete also what is not learned',
        checked: fields.has('delete_unlearned'),
        hint: 'Otherwise a conversation stays after the deletion period until memory has learned from it.',
      }),
      fieldset(
        'Learning',
        [
          textField({
            name: 'batch_of',
            label: 'Batch of',
            type: 'number',
            min: 1,
            max: 1_000,
            unit: 'messages',
            required: true,
            value: fields.get('batch_of'),
          }),
          textField({
            name: 'at_least_every_minutes',
            label: 'At least every',
            type: 'number',
            min: 1,
            max: 43_200,
            unit: 'minutes',
            required: true,
            value: fields.get('at_least_every_minutes'),
          }),
        ],
        'A batch starts when this many messages wait, or when the oldest has waited this long. The time must be shorter than the deletion period.',
      ),
    ],
  });
  return { kind: 'page', title: 'Memory settings', content: html`<div class="stack">${notices}<div class="card">${content}</div></div>` };
}

interface Confirmation {
  readonly before: MemorySettings;
  readonly rule: StricterRule;
  readonly effectiveAt: number;
  readonly preview: RetentionPreview;
}

function confirmationPage(context: ConsoleContext, fields: URLSearchParams, confirmation: Confirmation): PageContent {
  const { rule } = confirmation;
  const days = rule.delete_conversations_after_days;
  const sent = [...fields].filter(([name]) => name !== 'csrf' && name !== 'confirmed_days');
  const content = html`<form class="form danger-zone" method="post" action="${projectPath(context, '/settings')}">${csrfField(context)}${sent.map(([name, value]) => hidden(name, value))}${hidden('confirmed_days', confirmationOf(rule))}
${describeDeletion(context, confirmation)}
<div class="form-actions"><button class="button danger">Delete after ${countOf(days, 'day', 'days')}</button><a class="button" href="${projectPath(context, '/settings')}">Cancel</a></div></form>`;
  return {
    kind: 'page',
    title: `Delete conversations after ${countOf(days, 'day', 'days')}?`,
    breadcrumbs: [{ label: 'Memory settings', href: projectPath(context, '/settings') }],
    content,
  };
}

/** Says when the deletion begins and how many conversations it affects. */
function describeDeletion({ zone }: ConsoleContext, { before, rule, effectiveAt, preview }: Confirmation): Html {
  const { delete_conversations_after_days: days, delete_unlearned: unlearned } = rule;
  const { conversations, closedItems, oldestTurn } = preview;
  const { delete_conversations_after_days: daysBefore } = before;
  const change =
    daysBefore === null ? 'Until now everything is kept.' : `Until now conversations are kept for ${countOf(daysBefore, 'day', 'days')}.`;
  const first =
    oldestTurn === null
      ? 'No conversation is stored yet.'
      : html`The first affected date is <strong>${time(Math.max(effectiveAt, oldestTurn.getTime() + days * dayMs), zone, 'date')}</strong> (${zone}).`;
  const closed =
    closedItems === 0 ? '' : html` and ${countOf(closedItems, 'corrected or removed memory', 'corrected or removed memories')}`;
  const limit = time(effectiveAt - days * dayMs, zone, 'minute');
  const others = unlearned
    ? 'Conversations that memory has not learned from yet are deleted too.'
    : 'Older conversations that memory has not learned from yet follow when it has.';
  return html`<p>${change} ${first} The first daily cleanup after ${time(effectiveAt, zone, 'minute')} deletes <strong>${countOf(conversations, 'conversation', 'conversations')}</strong>${closed} from before ${limit}.</p>
<p>${others} Until then every member can cancel this. Deleted conversations cannot be restored. Live memories stay.</p>`;
}

function countOf(count: number, one: string, many: string): string {
  return `${count >= maxPreviewed ? 'more than ' : ''}${formatCount(count)} ${count === 1 ? one : many}`;
}

function hidden(name: string, value: string): Html {
  return html`<input type="hidden" name="${name}" value="${value}">`;
}
