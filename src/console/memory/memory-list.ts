/** Lists a project's memories, with filters and CSV export. Searching them works in the same way as in the API. */
import { parseOrBadRequest } from '../../core/parse-or-bad-request.ts';
import { type ItemFilter, itemStates, listItems, matchesFilter } from '../../memory/items/list-items.ts';
import { type Item, itemKinds } from '../../memory/records/item-record.ts';
import { type EpisodeMatch, searchRequestSchema } from '../../memory/search/search.ts';
import {
  ago,
  allPages,
  type Column,
  checkboxField,
  csvFile,
  csvLink,
  cutPage,
  filterForm,
  filterSelect,
  formatTimeIn,
  notice,
  pager,
  parsePageId,
  section,
  selectField,
  table,
  textField,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageContent } from '../frame/route.ts';
import { shorten } from '../frame/values.ts';
import type { MemoryPagesDeps } from './deps.ts';
import { kindLabels, memoryPath, originNames, ratingsLabel, stateBadges, styles, subjectLabel } from './item-view.ts';

const pageSize = 50;
/** The search API never returns more matches than this. */
const maxMatches = 50;
const stateLabels = { live: 'Live', left_out: 'Left out of recall', closed: 'Corrected or removed', all: 'All' } as const;

export function createMemoryListRoutes({ queries, search }: MemoryPagesDeps): readonly ConsoleRoute[] {
  const findMatches = async ({ project }: ConsoleContext, query: string, filter: ItemFilter): Promise<Matches> => {
    const kinds = filter.kind === null ? [] : [filter.kind];
    const request = { query, subject: filter.subject, limit: maxMatches, kinds, include: [], min_score: 0 };
    const result = await search(project.id, parseOrBadRequest(searchRequestSchema, request));
    const items = result.memories.map(({ item }) => item).filter((item) => matchesFilter(item, filter));
    return { items, episodes: result.episodes.slice(0, 5), byTextOnly: !result.vector };
  };

  return [
    get('/memory', 'member', async (context) => {
      const filter = readFilter(context.url);
      const query = readQuery(context.url);
      if (query !== null) return listPage(context, await matchesView(context, await findMatches(context, query, filter), filter));
      const page = { before: parsePageId(context), limit: pageSize + 1 };
      const { shown, next } = cutPage(await listItems(queries, context.project.id, filter, page), pageSize, ({ id }) => id);
      return listPage(context, html`${itemTable(context, shown)}${pager(context, next)}`);
    }),
    get('/memory.csv', 'member', async (context) => {
      const filter = readFilter(context.url);
      const query = readQuery(context.url);
      const { project, zone } = context;
      const readPage = (before: string | null, limit: number) => listItems(queries, project.id, filter, { before, limit });
      const rows = query === null ? allPages(readPage, ({ id }) => id) : (await findMatches(context, query, filter)).items;
      return csvFile<Item>(
        `memory-${project.slug}.csv`,
        {
          id: ({ id }) => id,
          text: ({ text }) => text,
          kind: ({ kind }) => kind,
          importance: ({ importance }) => importance,
          subject: ({ subject }) => subject,
          pinned: ({ pinned }) => pinned,
          origin: ({ origin }) => origin,
          author: ({ author }) => author,
          state: ({ state }) => state,
          in_recall: ({ inRecall }) => inRecall,
          useful: ({ useful }) => useful,
          wrong: ({ wrong }) => wrong,
          [`created_at (${zone})`]: ({ createdAt }) => formatTimeIn(createdAt, zone),
          [`updated_at (${zone})`]: ({ updatedAt }) => formatTimeIn(updatedAt, zone),
        },
        rows,
      );
    }),
  ];
}

interface Matches {
  readonly items: readonly Item[];
  readonly episodes: readonly EpisodeMatch[];
  readonly byTextOnly: boolean;
}

function listPage(context: ConsoleContext, content: Html): PageContent {
  return {
    kind: 'page',
    title: 'Memory',
    styles: [styles],
    actions: html`${csvLink(context)}<a class="button" href="${memoryPath(context)}/recall">What would recall find</a><a class="button primary" href="${memoryPath(context)}/new">Write a memory</a>`,
    content: html`<div class="stack">${filters(context)}${content}</div>`,
  };
}

function filters(context: ConsoleContext): Html {
  const { searchParams: given } = context.url;
  return filterForm(context, [
    textField({
      name: 'q',
      label: 'Search',
      type: 'search',
      value: given.get('q'),
      placeholder: 'Meaning or text',
      maxLength: 2_000,
    }),
    textField({ name: 'subject', label: 'Subject', value: given.get('subject'), placeholder: 'Any', maxLength: 256 }),
    filterSelect(context, 'kind', 'Kind', kindLabels),
    filterSelect(context, 'origin', 'Origin', originNames),
    selectField({
      name: 'state',
      label: 'State',
      value: given.get('state') ?? 'live',
      options: itemStates.map((value) => ({ value, label: stateLabels[value] })),
    }),
    checkboxField({ name: 'pinned', label: 'Pinned only', checked: given.has('pinned') }),
  ]);
}

async function matchesView(context: ConsoleContext, { items, episodes, byTextOnly }: Matches, filter: ItemFilter): Promise<Html> {
  const note = byTextOnly
    ? 'Compared by text only: no embedding was available.'
    : `The best of at most ${maxMatches} matches, by meaning and text.`;
  const conversations = section(
    'Conversations',
    table({
      caption: 'Matching conversations',
      columns: [
        { label: 'Conversation', value: ({ title }) => title ?? 'Without a title', grow: true },
        { label: 'Excerpt', value: ({ snippet }) => html`<span class="muted">${snippet}</span>`, grow: true },
        { label: 'Last turn', value: ({ lastTurnAt }) => ago(lastTurnAt, context.now, context.zone) },
      ],
      rows: episodes,
      rowHref: ({ id }) => projectPath(context, `/conversations/${id}`),
    }),
  );
  return html`${filter.state === 'closed' ? notice('Search finds live memories only. Clear the search to list corrected and removed ones.') : ''}
<p class="hint">${note}</p>${itemTable(context, items)}${episodes.length === 0 ? '' : conversations}`;
}

function itemTable(context: ConsoleContext, items: readonly Item[]): Html {
  const columns: readonly Column<Item>[] = [
    { label: 'Memory', value: (item) => html`${shorten(item.text)}${stateBadges(item)}`, grow: true },
    { label: 'Subject', value: ({ subject }) => subjectLabel(subject) },
    { label: 'Kind', value: ({ kind }) => kindLabels[kind] },
    { label: 'Origin', value: ({ origin }) => originNames[origin] },
    { label: 'Importance', value: ({ importance }) => importance, align: 'end', wideOnly: true },
    { label: 'Ratings', value: ratingsLabel, wideOnly: true },
    { label: 'Written', value: ({ createdAt }) => ago(createdAt, context.now, context.zone) },
  ];
  const isFiltered = context.url.search !== '';
  return table({
    caption: 'Memories',
    columns,
    rows: items,
    rowHref: ({ id }) => memoryPath(context, id),
    empty: isFiltered
      ? 'No memory matches these filters.'
      : 'Memories are learned from conversations, saved by applications through the API, or written here.',
  });
}

function readFilter({ searchParams: given }: URL): ItemFilter {
  return {
    subject: given.get('subject') || null,
    kind: itemKinds.find((kind) => kind === given.get('kind')) ?? null,
    origin: (['observed', 'agent', 'person'] as const).find((origin) => origin === given.get('origin')) ?? null,
    state: itemStates.find((state) => state === given.get('state')) ?? 'live',
    pinnedOnly: given.has('pinned'),
    conversationId: null,
  };
}

function readQuery({ searchParams }: URL): string | null {
  return searchParams.get('q')?.trim() || null;
}
