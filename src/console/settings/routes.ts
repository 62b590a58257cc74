/** Memory settings of the project. A deletion period that is turned on or shortened needs a second step, which names what it deletes. */
import { changedMembers } from '../../core/changed-members.ts';
import { gatewayError } from '../../core/errors.ts';
import { dayMs } from '../../core/time.ts';
import { maxPreviewed, type RetentionPreview } from '../../memory/erasure/retention.ts';
import { type MemorySettings, type MemorySettingsStore, parseMemorySettingsChange } from '../../memory/records/settings.ts';
import { checkboxField, csrfField, fieldset, form, formatCount, textField, time } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, ConsoleRoute, PageContent } from '../frame/route.ts';
import { formatSenders, parseSenders } from './sender-list.ts';

export interface SettingsPageDeps {
  readonly settings: Pick<MemorySettingsStore, 'read' | 'change'>;
  readonly previewRetention: (projectId: string, days: number) => Promise<RetentionPreview>;
}

export function createSettingsRoutes({ settings, previewRetention }: SettingsPageDeps): readonly ConsoleRoute[] {
  return [
    {
      method: 'get',
      path: '/settings',
      access: 'member',
      handle: async (context) => settingsPage(context, toFields(await settings.read(context.project.id))),
    },
    {
      method: 'post',
      path: '/settings',
      access: 'member',
      action: 'memory.update',
      async handle(context, fields) {
        const { id } = context.project;
        const before = await settings.read(id);
        const change = readChange(fields, before);
        const days = newPeriod(before, change);
        if (days !== null && fields.get('confirmed_days') !== String(days))
          throw gatewayError('bad_request', { message: 'nothing is changed yet: confirm the deletion period' });
        const { previous, settings: next } = await settings.change(id, change);
        const changed = changedMembers(previous, next);
        return {
          kind: 'redirect',
          to: projectPath(context, '/settings'),
          notice:
            Object.keys(changed).length === 0 ? 'Nothing was changed.' : 'The settings are saved. They apply to every call from now on.',
          audit: { changed },
        };
      },
      async invalidForm(context, fields) {
        const before = await settings.read(context.project.id);
        const days = newPeriodOf(before, fields);
        if (days === null) return settingsPage(context, fields);
        return confirmationPage(context, fields, { before, days, preview: await previewRetention(context.project.id, days) });
      },
    },
  ];
}

/** The form as text, also while it is invalid. */
function toFields(settings: MemorySettings): URLSearchParams {
  const {
    enabled,
    only_senders: senders,
    delete_conversations_after_days: days,
    batch_of: batch,
    at_least_every_minutes: minutes,
  } = settings;
  return new URLSearchParams({
    ...(enabled && { enabled: 'on' }),
    only_senders: formatSenders(senders),
    delete_conversations_after_days: days === null ? '' : String(days),
    batch_of: String(batch),
    at_least_every_minutes: String(minutes),
    shown: JSON.stringify(settings),
  });
}

/** What the form changes compared with what it showed, so that another person's change of another setting stays. */
function readChange(fields: URLSearchParams, current: MemorySettings): Partial<MemorySettings> {
  const days = fields.get('delete_conversations_after_days')?.trim() ?? '';
  const given = {
    enabled: fields.has('enabled'),
    only_senders: parseSenders(fields.get('only_senders') ?? ''),
    delete_conversations_after_days: days === '' ? null : Number(days),
    batch_of: toNumber(fields.get('batch_of')),
    at_least_every_minutes: toNumber(fields.get('at_least_every_minutes')),
  };
  const shown = readShown(fields) ?? current;
  return Object.fromEntries(Object.keys(changedMembers(shown, given)).map((name) => [name, given[name as keyof typeof given]]));
}

/** NaN for an empty field, which the settings reject. */
function toNumber(text: string | null): number {
  return text === null || text.trim() === '' ? Number.NaN : Number(text);
}

function readShown(fields: URLSearchParams): object | null {
  try {
    const shown: unknown = JSON.parse(fields.get('shown') ?? '');
    return typeof shown === 'object' ? shown : null;
  } catch {
    return null; // Not the form of this page: compared with the current settings.
  }
}

/** The deletion period that a change turns on or shortens; null when it does neither. Throws `bad_request`. */
function newPeriod(before: MemorySettings, change: Partial<MemorySettings>): number | null {
  const { delete_conversations_after_days: days } = parseMemorySettingsChange(change)(before);
  const { delete_conversations_after_days: daysBefore } = before;
  return days !== null && (daysBefore === null || days < daysBefore) ? days : null;
}

/** Null also for a form that is invalid for another reason. */
function newPeriodOf(before: MemorySettings, fields: URLSearchParams): number | null {
  try {
    return newPeriod(before, readChange(fields, before));
  } catch {
    return null; // The page shows the reason above the form.
  }
}

function settingsPage(context: ConsoleContext, fields: URLSearchParams): PageContent {
  const content = form({
    context,
    action: projectPath(context, '/settings'),
    submit: 'Save',
    fields: [
      hidden('shown', fields.get('shown') ?? ''),
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
  return { kind: 'page', title: 'Memory settings', content: html`<div class="card">${content}</div>` };
}

interface Confirmation {
  readonly before: MemorySettings;
  readonly days: number;
  readonly preview: RetentionPreview;
}

function confirmationPage(context: ConsoleContext, fields: URLSearchParams, confirmation: Confirmation): PageContent {
  const { days } = confirmation;
  const sent = [...fields].filter(([name]) => name !== 'csrf' && name !== 'confirmed_days');
  const content = html`<form class="form danger-zone" method="post" action="${projectPath(context, '/settings')}">${csrfField(context)}${sent.map(([name, value]) => hidden(name, value))}${hidden('confirmed_days', String(days))}
${describeDeletion(context, confirmation)}
<div class="form-actions"><button class="button danger">Delete after ${countOf(days, 'day', 'days')}</button><a class="button" href="${projectPath(context, '/settings')}">Cancel</a></div></form>`;
  return {
    kind: 'page',
    title: `Delete conversations after ${countOf(days, 'day', 'days')}?`,
    breadcrumbs: [{ label: 'Memory settings', href: projectPath(context, '/settings') }],
    content,
  };
}

/** Names the first affected date and how many conversations. */
function describeDeletion({ zone, now }: ConsoleContext, { before, days, preview }: Confirmation): Html {
  const { conversations, closedItems, oldestTurn } = preview;
  const { delete_conversations_after_days: daysBefore } = before;
  const change =
    daysBefore === null ? 'Until now everything is kept.' : `Until now conversations are kept for ${countOf(daysBefore, 'day', 'days')}.`;
  const first =
    oldestTurn === null
      ? 'No conversation is stored yet.'
      : html`The first affected date is <strong>${time(Math.max(now, oldestTurn.getTime() + days * dayMs), zone, 'date')}</strong> (${zone}).`;
  const closed =
    closedItems === 0 ? '' : html` and ${countOf(closedItems, 'corrected or removed memory', 'corrected or removed memories')}`;
  const limit = time(now - days * dayMs, zone, 'minute');
  return html`<p>${change} ${first} The next daily cleanup deletes <strong>${countOf(conversations, 'conversation', 'conversations')}</strong>${closed} from before ${limit}.</p>
<p>Older conversations that memory has not learned from yet follow when it has. Deleted conversations cannot be restored. Live memories stay.</p>`;
}

function countOf(count: number, one: string, many: string): string {
  return `${count >= maxPreviewed ? 'more than ' : ''}${formatCount(count)} ${count === 1 ? one : many}`;
}

function hidden(name: string, value: string): Html {
  return html`<input type="hidden" name="${name}" value="${value}">`;
}
