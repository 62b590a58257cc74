/**
 * The page of a conversation. It has tabs for the messages, the text that memory read, what memory learned from it, and
 * the calls.
 */
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { parseOrBadRequest } from '../../core/parse-or-bad-request.ts';
import type { Queries } from '../../db/database.ts';
import { type ConversationView, listConversationCalls, readConversation } from '../../memory/conversations/list-conversations.ts';
import { rememberBody } from '../../memory/items/item-schemas.ts';
import { listItems } from '../../memory/items/list-items.ts';
import type { RememberReceipt } from '../../memory/learning/remember.ts';
import {
  ago,
  copyable,
  cutPage,
  definitions,
  equalUsd,
  fillFields,
  formatCount,
  pageParameter,
  pager,
  parsePageId,
  form as renderForm,
  section,
  table,
  tabs,
  textField,
  time,
  withQuery,
} from '../frame/components.ts';
import { endUserLink } from '../frame/end-user.ts';
import { noErrors, type SubmittedForm } from '../frame/field-errors.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageContent, post } from '../frame/route.ts';
import { stateBadge, styles } from './conversation-list.ts';
import { maxTextLength, messagesView, textView } from './conversation-text.ts';

export interface ConversationDetailDeps {
  readonly queries: Queries;
  readonly readStored: <Result>(query: () => Promise<Result>, projectId: string) => Promise<Result>;
  /** Starts a batch that reads the conversation from its first message. Throws `not_found` or `memory_off`. */
  readonly remember: (projectId: string, conversationId: string, focus: string | null) => Promise<RememberReceipt>;
}

const maxDownloadLength = 16 * 1024 * 1024;
const maxCalls = 200;
const memoriesPerPage = 50;

const views = [
  { name: 'messages', label: 'Messages', render: messagesView },
  { name: 'text', label: 'Text that memory read', render: textView },
  { name: 'memories', label: 'Memories learned', render: memoriesView },
  { name: 'calls', label: 'Calls', render: callsView },
] as const;

type View = (typeof views)[number];

export function createConversationDetailRoutes({ queries, readStored, remember }: ConversationDetailDeps): readonly ConsoleRoute[] {
  const read = async ({ project, params: { id = '' } }: ConsoleContext, maxText = maxTextLength): Promise<ConversationView> => {
    const conversation = await readStored(() => readConversation(queries, project.id, id, maxText), project.id);
    if (!conversation) throw gatewayError('not_found', { message: 'no such conversation' });
    return conversation;
  };
  const show = async (context: ConsoleContext, form = new URLSearchParams(), errors = noErrors): Promise<PageContent> => {
    const conversation = await read(context);
    const view = views.find(({ name }) => name === context.url.searchParams.get('view')) ?? views[0];
    return detailPage(context, conversation, view, await view.render(queries, context, conversation), { form, errors });
  };

  return [
    get('/conversations/:id', 'member', (context) => show(context)),
    get('/conversations/:id/text', 'member', async (context) => {
      const { id, text } = await read(context, maxDownloadLength);
      return { kind: 'download', fileName: `conversation-${id}.txt`, contentType: 'text/plain; charset=utf-8', body: text ?? '' };
    }),
    post(
      '/conversations/:id/remember',
      { access: 'member', action: 'conversation.remember', invalidForm: show },
      async (context, fields) => {
        const { id = '' } = context.params;
        if (!isUuid(id)) throw gatewayError('not_found', { message: 'no such conversation' });
        const { focus } = parseOrBadRequest(rememberBody, { focus: fields.get('focus') ?? '' });
        const { batchId } = await readStored(() => remember(context.project.id, id.toLowerCase(), focus), context.project.id);
        return {
          kind: 'redirect',
          to: projectPath(context, `/batches/${batchId}`),
          notice: 'Memory is reading the conversation from its first message.',
          audit: { conversation: id, batch: batchId },
        };
      },
    ),
  ];
}

function detailPage(
  context: ConsoleContext,
  conversation: ConversationView,
  view: View,
  content: Html,
  submitted: SubmittedForm,
): PageContent {
  const { zone } = context;
  const { id, title, state, source, subject, calls, messages, batchedMessages, learnable } = conversation;
  const learned = learnable
    ? `${formatCount(Math.min(batchedMessages, messages))} of ${formatCount(messages)} messages`
    : 'Memory does not learn from it';
  return {
    kind: 'page',
    title: title || 'Conversation',
    styles: [styles],
    breadcrumbs: [{ label: 'Conversations', href: projectPath(context, '/conversations') }],
    content: html`<div class="stack">${definitions([
      ['State', stateBadge(state)],
      ['Application', html`<a href="${projectPath(context, '/conversations', { source })}">${source}</a>`],
      ['Subject', subject === null ? 'None' : endUserLink(context, subject)],
      ['Calls', formatCount(calls)],
      ['Started', time(conversation.startedAt, zone)],
      ['Last turn', time(conversation.lastTurnAt, zone)],
      ['Closed', time(conversation.readAt, zone)],
      ['In learning batches', learned],
      ['Id', copyable(id)],
    ])}
${tabs(
  'Parts of the conversation',
  views.map(({ name, label }) => ({
    label,
    href: withQuery(context, { view: name === 'messages' ? null : name, from: null, [pageParameter]: null }),
    current: name === view.name,
  })),
)}${content}${rememberSection(context, conversation, submitted)}</div>`,
  };
}

function rememberSection(context: ConsoleContext, { id }: ConversationView, submitted: SubmittedForm): Html {
  const content = renderForm({
    context,
    action: projectPath(context, `/conversations/${id}/remember`),
    submit: 'Remember',
    label: 'Remember this conversation',
    fields: [
      textField({
        ...fillFields(submitted.form, submitted.errors)('focus'),
        label: 'Focus',
        maxLength: 2_000,
        hint: 'What memory should look for. Leave empty for everything worth knowing.',
      }),
    ],
  });
  return section('Remember', html`<div class="card">${content}</div>`, {
    hint: 'Starts a batch right away that reads the conversation from its first message. This costs a call of the memory model.',
  });
}

async function memoriesView(queries: Queries, context: ConsoleContext, { id }: ConversationView): Promise<Html> {
  const { project } = context;
  const filter = { subject: null, kind: null, origin: null, state: 'all', pinnedOnly: false, conversationId: id } as const;
  const rows = await listItems(queries, project.id, filter, { before: parsePageId(context), limit: memoriesPerPage + 1 });
  const { shown, next } = cutPage(rows, memoriesPerPage, ({ id }) => id);
  const list = table({
    caption: 'Memories learned from this conversation',
    columns: [
      { label: 'Memory', value: ({ text }: (typeof rows)[number]) => text.slice(0, 300).toWellFormed(), grow: true },
      { label: 'Kind', value: ({ kind }) => kind },
      { label: 'State', value: ({ state, inRecall }) => (state === 'closed' ? 'Closed' : inRecall ? 'Live' : 'Left out of recall') },
      { label: 'Written', value: ({ createdAt }) => ago(createdAt, context.now, context.zone) },
    ],
    rows: shown,
    rowHref: (item) => projectPath(context, `/memory/${item.id}`),
    empty: 'No memories so far. Learning batches only remember what is worth knowing, and that may be nothing.',
  });
  return html`${list}${pager(context, next)}`;
}

async function callsView(queries: Queries, context: ConsoleContext, { id, calls }: ConversationView): Promise<Html> {
  const rows = await listConversationCalls(queries, id, maxCalls);
  const money = equalUsd(rows.map(({ costNanos }) => costNanos));
  const list = table({
    caption: 'Calls of this conversation',
    columns: [
      { label: 'Started', value: ({ startedAt }: (typeof rows)[number]) => time(startedAt, context.zone) },
      { label: 'Model', value: ({ model }) => model ?? '–', grow: true },
      { label: 'Status', value: ({ status }) => status, align: 'end' },
      { label: 'Cost', value: ({ costNanos }) => money(costNanos), align: 'end' },
    ],
    rows,
    rowHref: (call) => projectPath(context, `/calls/${call.id}`),
    empty: 'The calls of this conversation have not been stored yet, or they were deleted.',
  });
  return html`${calls > maxCalls ? html`<p class="hint">Showing the newest ${formatCount(maxCalls)} of ${formatCount(calls)} calls.</p>` : ''}${list}`;
}
