/** Shows the live facts of the graph as a table, and draws the newest ones. */
import { parseOrBadRequest } from '../../core/parse-or-bad-request.ts';
import { countFacts, type Fact, type GraphQuery, graphQuerySchema } from '../../memory/search/graph.ts';
import { csvLink, filterForm, formatCount, formatTimeIn, table, tabs, textField, time, withQuery } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { type ConsoleContext, type ConsoleRoute, type CsvValue, get } from '../frame/route.ts';
import type { MemoryPagesDeps } from './deps.ts';
import { drawGraph } from './graph-picture.ts';
import { memoryPath, styles, subjectLink } from './item-view.ts';

const maxFacts = 100;
/** Nobody could read a picture with more nodes than this. */
const maxNodes = 60;
const maxCounted = 10_000;
const maxExported = 10_000;

export function createGraphRoutes({ queries, findFacts }: MemoryPagesDeps): readonly ConsoleRoute[] {
  return [
    get('/graph', 'member', async (context) => {
      const query = readQuery(context.url);
      const facts = await findFacts(context.project.id, query);
      const total = facts.length < maxFacts ? facts.length : await countFacts(queries, context.project.id, query, maxCounted);
      return {
        kind: 'page',
        title: 'Graph',
        styles: [styles],
        actions: csvLink(context),
        content: html`<div class="stack">${filters(context)}${views(context)}${
          isPicture(context) && facts.length > 0 ? picture(context, facts, total) : listing(context, facts, total)
        }</div>`,
      };
    }),
    get('/graph.csv', 'member', async ({ url, project, zone }) => {
      const facts = await findFacts(project.id, { ...readQuery(url), limit: maxExported });
      return {
        kind: 'csv',
        fileName: `facts-${project.slug}.csv`,
        header: ['id', 'source', 'relation', 'target', 'fact', 'subject', `valid_from (${zone})`, 'memories'],
        rows: facts.map((fact) => csvRow(fact, zone)),
      };
    }),
  ];
}

function readQuery({ searchParams: given }: URL): GraphQuery {
  const [entity, relation, query, subject] = ['entity', 'relation', 'q', 'subject'].map((name) => given.get(name) || null);
  return parseOrBadRequest(graphQuerySchema, { entity, relation, query, subject, limit: maxFacts });
}

function filters(context: ConsoleContext): Html {
  const { searchParams: given } = context.url;
  const fields = [
    textField({ name: 'q', label: 'Text of the fact', type: 'search', value: given.get('q'), maxLength: 2_000 }),
    textField({ name: 'entity', label: 'Entity', value: given.get('entity'), placeholder: 'Any', maxLength: 2_000 }),
    textField({ name: 'relation', label: 'Relation', value: given.get('relation'), placeholder: 'Any', maxLength: 2_000 }),
    textField({ name: 'subject', label: 'Subject', value: given.get('subject'), placeholder: 'Any', maxLength: 256 }),
  ];
  return filterForm(context, fields, { keep: ['view'] });
}

function isPicture({ url }: ConsoleContext): boolean {
  return url.searchParams.get('view') === 'picture';
}

function views(context: ConsoleContext): Html {
  return tabs('View of the graph', [
    { label: 'Table', href: withQuery(context, { view: null }), current: !isPicture(context) },
    { label: 'Picture', href: withQuery(context, { view: 'picture' }), current: isPicture(context) },
  ]);
}

function listing(context: ConsoleContext, facts: readonly Fact[], total: number): Html {
  const hint =
    facts.length < total
      ? html`<p class="hint">The newest ${formatCount(facts.length)} of ${formatTotal(total)} live facts that match.</p>`
      : '';
  return html`${hint}${factTable(context, facts)}`;
}

function picture(context: ConsoleContext, facts: readonly Fact[], total: number): Html {
  const { shown, nodes } = selectFacts(facts);
  const title = `${formatCount(nodes)} entities and ${formatCount(shown.length)} live facts`;
  const drawn = drawGraph(shown, { hrefOf: (entity) => withQuery(context, { entity, q: null, relation: null }), title });
  return html`<p class="hint">${describe(shown.length, nodes, total)}</p>${drawn}`;
}

/** The drawing only has facts about the newest `maxNodes` entities. The table has all of them. */
function selectFacts(facts: readonly Fact[]): { shown: readonly Fact[]; nodes: number } {
  const ids = new Set<string>();
  const shown = facts.filter(({ sourceId, targetId }) => {
    const added = new Set([sourceId, targetId]).difference(ids).size;
    if (ids.size + added > maxNodes) return false;
    ids.add(sourceId).add(targetId);
    return true;
  });
  return { shown, nodes: ids.size };
}

function describe(shown: number, nodes: number, total: number): string {
  const start = `The picture shows ${formatCount(shown)} live ${shown === 1 ? 'fact' : 'facts'} between ${formatCount(nodes)} entities`;
  if (shown === total) return `${start}: all that match.`;
  return `${start}, the newest of ${formatTotal(total)} that match. Select an entity, or filter, to see others.`;
}

function formatTotal(total: number): string {
  return total >= maxCounted ? `more than ${formatCount(maxCounted)}` : formatCount(total);
}

function factTable(context: ConsoleContext, facts: readonly Fact[]): Html {
  const entity = (name: string) => html`<a class="cut" title="${name}" href="${withQuery(context, { entity: name })}">${name}</a>`;
  return table({
    caption: 'Live facts',
    columns: [
      { label: 'Fact', value: ({ fact }: Fact) => fact, grow: true },
      { label: 'From', value: ({ sourceName }: Fact) => entity(sourceName) },
      { label: 'Relation', value: ({ relation }) => html`<code>${relation}</code>` },
      { label: 'To', value: ({ targetName }) => entity(targetName) },
      { label: 'Subject', value: ({ subject }) => subjectLink(context, subject) },
      { label: 'Since', value: ({ validFrom }) => time(validFrom, context.zone, 'date') },
      { label: 'Memories', value: ({ itemIds }) => itemLinks(context, itemIds) },
    ],
    rows: facts,
    empty:
      withQuery(context, { view: null }) === context.url.pathname
        ? 'Learning adds facts, such as “Ada works at Acme”, when it consolidates new memories.'
        : 'No live fact matches these filters.',
  });
}

function itemLinks(context: ConsoleContext, ids: readonly string[]): Html {
  return html`${ids.slice(0, 5).map((id, index) => html`${index === 0 ? '' : ', '}<a href="${memoryPath(context, id)}">${index + 1}<span class="hidden">. memory</span></a>`)}${
    ids.length > 5 ? html` <span class="muted">and ${ids.length - 5} more</span>` : ''
  }`;
}

function csvRow({ id, sourceName, relation, targetName, fact, subject, validFrom, itemIds }: Fact, zone: string): CsvValue[] {
  return [id, sourceName, relation, targetName, fact, subject, formatTimeIn(validFrom, zone), itemIds.join(' ')];
}
