/**
 * The page of an end user, with how much is stored about them and their newest memories, conversations and facts.
 */
import { hashSubjectHex } from '../../core/subject.ts';
import { dayMs } from '../../core/time.ts';
import { addDays, startOf } from '../../core/time-zone.ts';
import type { ConversationSummary } from '../../memory/conversations/list-conversations.ts';
import type { Item } from '../../memory/records/item-record.ts';
import type { StoredPage } from '../../memory/records/pages.ts';
import type { BoundedCount, SeenTimes, SubjectCounts } from '../../memory/records/subjects.ts';
import type { Fact } from '../../memory/search/graph.ts';
import type { SubjectCall, SubjectCalls } from '../../usage/analytics/subject-calls.ts';
import {
  actionButton,
  ago,
  badge,
  type Column,
  card,
  copyable,
  countOf,
  definitions,
  equalUsd,
  formatCount,
  notice,
  type Stat,
  section,
  stats,
  table,
  time,
  totalUsd,
} from '../frame/components.ts';
import { endUsersPath } from '../frame/end-user.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import { periodQuery } from '../frame/time-range.ts';
import { shorten } from '../frame/values.ts';

export interface KnownEndUser {
  readonly subject: string;
  /** True if we store anything about the end user other than calls, even if this page doesn't show it. */
  readonly isStored: boolean;
  readonly calls: SubjectCalls;
  readonly counts: SubjectCounts;
  readonly page: StoredPage | null;
  readonly times: SeenTimes | null;
  readonly pinned: readonly Item[];
  readonly items: readonly Item[];
  readonly conversations: readonly ConversationSummary[];
  readonly facts: readonly Fact[];
}

export function endUserPage(context: ConsoleContext, known: KnownEndUser): PageContent {
  const { subject, calls, counts, times, pinned } = known;
  const { zone } = context;
  const isUnknown = calls.calls === 0 && !known.isStored;
  const content = isUnknown
    ? notice('Nothing is stored about this end user, so check the spelling. Upper and lower case matter.')
    : html`${stats([...callStats(context, calls, hashSubjectHex(subject), counts.prompts), ...memoryStats(context, known)])}
${card(
  definitions([
    ['First seen', time(earliest(calls.firstAt, times?.first), zone)],
    ['Last seen', time(latest(calls.lastAt, times?.last), zone)],
    ['SHA-256 of the id', copyable(hashSubjectHex(subject))],
  ]),
)}
${pinned.length === 0 ? '' : section('Pinned memories', itemTable(context, 'Pinned memories', pinned), { hint: 'They are part of every wake-up.' })}
${newest(context, known)}`;
  return {
    kind: 'page',
    title: `End user ${subject}`,
    ...(isUnknown && { status: 404 }),
    breadcrumbs: [{ label: 'End users', href: projectPath(context, endUsersPath) }],
    ...(context.role === 'owner' && { actions: ownerActions(context, subject) }),
    content: html`<div class="stack">${content}</div>`,
  };
}

export function unnamedPage(context: ConsoleContext, sha256: string, calls: SubjectCalls): PageContent {
  const content = html`${notice('Calls only contain the SHA-256 of an end user’s id, and the latest ones have no stored text that names it. If you know the id, search for it to see what memory knows about this end user.')}
${stats(callStats(context, calls, sha256))}
${card(
  definitions([
    ['First seen', time(calls.firstAt, context.zone)],
    ['Last seen', time(calls.lastAt, context.zone)],
    ['SHA-256 of the id', copyable(sha256)],
  ]),
)}
${callSection(context, calls, sha256)}`;
  return {
    kind: 'page',
    title: `End user ${sha256.slice(0, 16)}…`,
    breadcrumbs: [{ label: 'End users', href: projectPath(context, endUsersPath) }],
    content: html`<div class="stack">${content}</div>`,
  };
}

/**
 * Owners can download or erase the end user's data. The form for erasures lists what would be deleted and asks for the
 * end user's id.
 */
function ownerActions(context: ConsoleContext, subject: string): Html {
  const download = actionButton({
    context,
    action: projectPath(context, '/erase/export'),
    label: 'Download what is stored',
    values: { subject },
  });
  return html`${download}<a class="button small danger" href="${projectPath(context, '/erase', { subject })}">Erase</a>`;
}

function callStats(context: ConsoleContext, calls: SubjectCalls, sha256: string, prompts?: BoundedCount): Stat[] {
  const count = formatBounded({ count: calls.calls, isMore: calls.isMore });
  const hints = [countOf(calls.errors, 'error'), ...(prompts === undefined ? [] : [`${formatBounded(prompts)} with stored text`])];
  const unpriced = calls.unpriced === 0 ? [] : [`${formatCount(calls.unpriced)} ${calls.unpriced === 1 ? 'has' : 'have'} no price`];
  const part = calls.isMore ? [`of the newest ${formatCount(calls.calls)} calls`] : [];
  const spendHint = [...part, ...unpriced].join('; ');
  return [
    { label: 'Calls', value: count, hint: hints.join(', '), ...(calls.calls > 0 && { href: callsPath(context, calls, sha256) }) },
    {
      label: 'Spend',
      value: totalUsd(calls.costNanos),
      ...(spendHint !== '' && { hint: spendHint }),
      ...(calls.calls > 0 && { href: projectPath(context, '/explore', { ...periodOf(context, calls), subject: sha256 }) }),
    },
  ];
}

function memoryStats(context: ConsoleContext, { subject, counts, page }: KnownEndUser): Stat[] {
  const linked = (label: string, count: BoundedCount, path: string, query: Record<string, string> = {}): Stat => ({
    label,
    value: formatBounded(count),
    ...((count.count > 0 || count.isMore) && { href: projectPath(context, path, { subject, ...query }) }),
  });
  return [
    { ...linked('Memories', counts.live, '/memory'), hint: `${formatBounded(counts.pinned)} pinned` },
    { ...linked('Closed memories', counts.closed, '/memory', { state: 'closed' }), hint: 'Corrected, merged or removed' },
    linked('Conversations', counts.conversations, '/conversations'),
    {
      ...linked('Facts', counts.facts, '/graph'),
      hint: `${formatBounded(counts.endedFacts)} ended. The graph also lists those of the whole project`,
    },
    {
      label: 'Profile page',
      value: page === null ? 'None' : 'Written',
      ...(page !== null && { href: projectPath(context, '/pages', { subject }), hint: ago(page.updatedAt, context.now, context.zone) }),
    },
  ];
}

function newest(context: ConsoleContext, { subject, calls, items, conversations, facts }: KnownEndUser): Html {
  const part = (title: string, rows: Html, label: string, page: string): Html =>
    section(title, rows, { actions: html`<a href="${projectPath(context, page, { subject })}">${label}</a>` });
  return html`${items.length > 0 && part('Newest memories', itemTable(context, 'Newest memories', items), 'All memories', '/memory')}
${conversations.length > 0 && part('Newest conversations', conversationTable(context, conversations), 'All conversations', '/conversations')}
${calls.calls > 0 && callSection(context, calls, hashSubjectHex(subject))}
${facts.length > 0 && part('Newest facts', factTable(context, facts), 'Graph', '/graph')}`;
}

function itemTable(context: ConsoleContext, caption: string, rows: readonly Item[]): Html {
  return table<Item>({
    caption,
    rows,
    rowHref: ({ id }) => projectPath(context, `/memory/${id}`),
    columns: [
      { label: 'Memory', value: ({ text }) => shorten(text), grow: true },
      { label: 'Kind', value: ({ kind }) => badge(kind) },
      writtenColumn(context, ({ createdAt }) => createdAt),
    ],
  });
}

function conversationTable(context: ConsoleContext, rows: readonly ConversationSummary[]): Html {
  return table<ConversationSummary>({
    caption: 'Newest conversations',
    rows,
    rowHref: ({ id }) => projectPath(context, `/conversations/${id}`),
    columns: [
      {
        label: 'Conversation',
        value: ({ title, startedAt }) => title || html`Started ${time(startedAt, context.zone, 'minute')}`,
        grow: true,
      },
      { label: 'Application', value: ({ source }) => source },
      { label: 'Calls', value: ({ calls }) => formatCount(calls), align: 'end' },
      { label: 'Last turn', value: ({ lastTurnAt }) => ago(lastTurnAt, context.now, context.zone) },
    ],
  });
}

function callSection(context: ConsoleContext, calls: SubjectCalls, sha256: string): Html {
  const money = equalUsd(calls.newest.map(({ costNanos }) => costNanos));
  const rows = table<SubjectCall>({
    caption: 'Newest calls',
    rows: calls.newest,
    rowHref: ({ id }) => projectPath(context, `/calls/${id}`),
    columns: [
      { label: 'Time', value: ({ startedAt }) => time(startedAt, context.zone) },
      { label: 'Status', value: ({ status }) => status, align: 'end' },
      { label: 'Application', value: ({ source }) => source },
      { label: 'Model', value: ({ model, requestedModel }) => model ?? requestedModel, grow: true },
      { label: 'Cost', value: ({ costNanos }) => money(costNanos), align: 'end' },
    ],
  });
  return section('Newest calls', rows, { actions: html`<a href="${callsPath(context, calls, sha256)}">List of calls</a>` });
}

function factTable(context: ConsoleContext, rows: readonly Fact[]): Html {
  return table<Fact>({
    caption: 'Newest facts',
    rows,
    columns: [
      { label: 'Fact', value: ({ fact }) => fact, grow: true },
      { label: 'Relation', value: ({ relation }) => html`<code>${relation}</code>` },
      writtenColumn(context, ({ createdAt }) => createdAt),
    ],
  });
}

function writtenColumn<Row>({ now, zone }: ConsoleContext, timeOf: (row: Row) => Date): Column<Row> {
  return { label: 'Written', value: (row) => ago(timeOf(row), now, zone) };
}

/** Returns e.g. `12`, or `1,000+` if counting stopped at 1,000. */
export function formatBounded({ count, isMore }: BoundedCount): string {
  return `${formatCount(count)}${isMore ? '+' : ''}`;
}

function earliest(one: Date | null, other: Date | null | undefined): Date | null {
  if (!one || !other) return one ?? other ?? null;
  return one < other ? one : other;
}

export function latest(one: Date | null, other: Date | null | undefined): Date | null {
  if (!one || !other) return one ?? other ?? null;
  return one > other ? one : other;
}

function callsPath(context: ConsoleContext, calls: SubjectCalls, sha256: string): string {
  return projectPath(context, '/calls', { ...periodOf(context, calls), subject: sha256 });
}

const longestPeriod = 30 * dayMs;

/**
 * Returns the query parameters of a link to the end user's calls. They select the period from the first to the last
 * call, but at most its last 30 days. Without calls, there are no parameters.
 */
function periodOf({ zone }: ConsoleContext, { firstAt, lastAt }: SubjectCalls): Record<string, string> {
  if (firstAt === null || lastAt === null) return {};
  const from = Math.max(firstAt.getTime(), lastAt.getTime() - longestPeriod);
  return periodQuery({ from: startOf('day', zone, from), to: addDays(zone, startOf('day', zone, lastAt.getTime()), 1) }, zone);
}
