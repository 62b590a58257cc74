/** Renders the memory settings, and the page that asks people to confirm a change that deletes something. */
import { dayMs } from '../../core/time.ts';
import { type DeletionRule, maxPreviewed, type RetentionPreview } from '../../memory/records/deletion-rule.ts';
import type { MemorySettings, ParsedSettingsChange, ShownMemorySettings } from '../../memory/records/settings-schema.ts';
import {
  actionButton,
  checkboxField,
  csrfField,
  fieldset,
  fillFields,
  form,
  formatCount,
  formatTimeIn,
  notice,
  textField,
  time,
} from '../frame/components.ts';
import type { SubmittedForm } from '../frame/field-errors.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import { type Settings, settingsField } from '../frame/settings-edit.ts';

export type StricterRule = NonNullable<ParsedSettingsChange['stricter']>;

/**
 * Returns a string that identifies a rule. The form sends it back, so that we never apply a different rule than the one
 * that was confirmed.
 */
export function confirmationOf({ delete_conversations_after_days: days, delete_unlearned: unlearned }: StricterRule): string {
  return unlearned ? `${days} unlearned` : String(days);
}

export function describeSaved({ zone }: ConsoleContext, changed: object, { pending_deletion: pending }: ShownMemorySettings): string {
  if (pending === null || !('pending_deletion' in changed)) return 'The settings are saved. They apply to every call from now on.';
  return `The settings are saved. The new deletion period takes effect at ${formatTimeIn(Date.parse(pending.effective_at), zone, 'minute')} (${zone}), unless a member cancels it.`;
}

/**
 * Renders a notice that says what's going to be deleted and when, with a button that cancels the deletion. Every member
 * may cancel it. Returns an empty string if no deletion is planned.
 */
export function describePending(context: ConsoleContext, { pending_deletion: pending }: ShownMemorySettings): Html | string {
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
 * Explains why we sometimes keep conversations longer than the deletion period. People may not expect that we keep a
 * conversation until memory has learned from it.
 */
export function describeUnlearned(context: ConsoleContext, { current, kept, hasModel }: Unlearned): Html | string {
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
    html`Conversations that memory has not learned from are kept after the deletion period.${count} ${reason} A setting below deletes them as well.`,
    'warning',
    'The deletion period does not apply to all conversations',
  );
}

interface SettingsView {
  readonly submitted: SubmittedForm;
  readonly read: Settings;
  readonly notices: Html;
}

export function settingsPage(context: ConsoleContext, { submitted, read, notices }: SettingsView): PageContent {
  const { form: fields, errors } = submitted;
  const filled = fillFields(fields, errors);
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
        ...filled('only_senders'),
        label: 'Only these senders',
        placeholder: 'All applications',
        hint: 'Names of applications, separated by commas. Others are not recorded, nor are calls that name no application. Recall is not limited.',
      }),
      textField({
        ...filled('delete_conversations_after_days'),
        label: 'Delete conversations after',
        type: 'number',
        min: 1,
        max: 36_500,
        unit: 'days',
        placeholder: 'Keep',
        hint: 'The daily cleanup deletes conversations whose last turn is older, with their prompts, memories that were corrected or removed before that time, and facts that ended before it. Empty keeps everything. Live memories stay.',
      }),
      checkboxField({
        name: 'delete_unlearned',
        label: "Also delete conversations that memory hasn't learned from",
        checked: fields.has('delete_unlearned'),
        hint: 'Otherwise a conversation stays after the deletion period until memory has learned from it.',
      }),
      fieldset(
        'Learning',
        [
          textField({
            ...filled('batch_of'),
            label: 'Batch of',
            type: 'number',
            min: 1,
            max: 1_000,
            unit: 'messages',
            required: true,
          }),
          textField({
            ...filled('at_least_every_minutes'),
            label: 'At least every',
            type: 'number',
            min: 1,
            max: 43_200,
            unit: 'minutes',
            required: true,
          }),
        ],
        'A batch starts when this many messages wait, or when the oldest has waited this long. The time must be shorter than the deletion period.',
      ),
      fieldset('Recall', [
        textField({
          ...filled('recall_budget_tokens'),
          label: 'Budget per call',
          type: 'number',
          min: 100,
          max: 16_000,
          unit: 'tokens',
          placeholder: 'Ten memories',
          hint: 'How many tokens recall may add to a prompt. Four bytes of text count as a token. You pay for these tokens with each call that recalls memories. If you leave this empty, recall adds up to ten memories, with 4,000 characters in all.',
        }),
      ]),
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

export function confirmationPage(context: ConsoleContext, fields: URLSearchParams, confirmation: Confirmation): PageContent {
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
