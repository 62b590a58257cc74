/** Lists conversations without reading messages, most recently active first. */
import type { Queries } from '../../db/database.ts';
import { type ConversationFilter, type ConversationSummary, listConversations } from '../../memory/conversations/list-conversations.ts';
import { defineAsset } from '../frame/assets.ts';
import {
  ago,
  allPages,
  badge,
  csvFile,
  csvLink,
  cutPage,
  filterForm,
  filterSelect,
  formatCount,
  formatTimeIn,
  pageParameter,
  pager,
  table,
  textField,
  time,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import { type ConsoleContext, type ConsoleRoute, get } from '../frame/route.ts';

export interface ConversationListDeps {
  readonly queries: Queries;
  /** Runs a query after this process has stored its calls, so that it includes calls that have just ended. */
  readonly readStored: <Result>(query: () => Promise<Result>, projectId: string) => Promise<Result>;
}

export const styles = defineAsset(new URL('./conversation.css', import.meta.url));

const pageSize = 50;

export function createConversationListRoutes({ queries, readStored }: ConversationListDeps): readonly ConsoleRoute[] {
  return [
    get('/conversations', 'member', async (context) => {
      const { project, url } = context;
      const before = url.searchParams.get(pageParameter);
      const rows = await readStored(
        () => listConversations(queries, project.id, readFilter(url), { before, limit: pageSize + 1 }),
        project.id,
      );
      const { shown, next } = cutPage(rows, pageSize, ({ cursor }) => cursor);
      const content = html`<div class="stack">${filters(context)}${conversationTable(context, shown)}${pager(context, next)}</div>`;
      return { kind: 'page', title: 'Conversations', styles: [styles], actions: csvLink(context), content };
    }),
    get('/conversations.csv', 'member', async ({ project, url, zone }) =>
      csvFile<ConversationSummary>(
        `conversations-${project.slug}.csv`,
        {
          id: ({ id }) => id,
          title: ({ title }) => title,
          application: ({ source }) => source,
          subject: ({ subject }) => subject,
          state: ({ state }) => state,
          calls: ({ calls }) => calls,
          messages: ({ messages }) => messages,
          [`started_at (${zone})`]: ({ startedAt }) => formatTimeIn(startedAt, zone),
          [`last_turn_at (${zone})`]: ({ lastTurnAt }) => formatTimeIn(lastTurnAt, zone),
          [`read_at (${zone})`]: ({ readAt }) => readAt && formatTimeIn(readAt, zone),
        },
        allPages(
          (before, limit) => listConversations(queries, project.id, readFilter(url), { before, limit }),
          ({ cursor }) => cursor,
        ),
      ),
    ),
  ];
}

function readFilter({ searchParams: given }: URL): ConversationFilter {
  const state = given.get('state');
  return {
    source: given.get('source') || null,
    subject: given.get('subject') || null,
    state: state === 'stored' || state === 'read' ? state : null,
  };
}

function filters(context: ConsoleContext): Html {
  const { searchParams: given } = context.url;
  return filterForm(context, [
    textField({ name: 'source', label: 'Application', value: given.get('source'), placeholder: 'Any', maxLength: 256 }),
    textField({ name: 'subject', label: 'Subject', value: given.get('subject'), placeholder: 'Any', maxLength: 256 }),
    filterSelect(context, 'state', 'State', { stored: 'Open', read: 'Closed' }),
  ]);
}

function conversationTable(context: ConsoleContext, rows: readonly ConversationSummary[]): Html {
  return table({
    caption: 'Conversations',
    columns: [
      { label: 'Conversation', value: (row: ConversationSummary) => titleOf(row, context), grow: true },
      { label: 'Application', value: ({ source }) => source },
      {
        label: 'Subject',
        value: ({ subject }) =>
          subject === null ? html`<span class="muted">None</span>` : html`<span class="cut" title="${subject}">${subject}</span>`,
      },
      { label: 'State', value: ({ state }) => stateBadge(state) },
      { label: 'Calls', value: ({ calls }) => formatCount(calls), align: 'end' },
      { label: 'Last turn', value: ({ lastTurnAt }) => ago(lastTurnAt, context.now, context.zone) },
    ],
    rows,
    rowHref: ({ id }) => projectPath(context, `/conversations/${id}`),
    empty:
      context.url.search === ''
        ? 'While memory is on, successful calls of chat, messages and responses appear here.'
        : 'No conversation matches these filters.',
  });
}

/** A conversation has no title until memory has read it, so its start takes the place of the title. */
function titleOf({ title, state, startedAt }: ConversationSummary, { zone }: ConsoleContext): Html | string {
  return (
    title ||
    html`Started ${time(startedAt, zone, 'minute')}<span class="muted">, ${state === 'stored' ? 'not read yet' : 'without a title'}</span>`
  );
}

export function stateBadge(state: ConversationSummary['state']): Html {
  return state === 'read' ? badge('Closed') : badge('Open', 'accent');
}
