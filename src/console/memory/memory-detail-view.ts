/** Shows a memory with its source, votes, history and facts. */
import type { ItemDetails, ItemSource } from '../../memory/items/item-details.ts';
import type { StoredVote } from '../../memory/items/votes.ts';
import type { Item } from '../../memory/records/item-record.ts';
import type { Fact } from '../../memory/search/graph.ts';
import { authorName } from '../frame/author.ts';
import { actionButton, ago, badge, copyable, definitions, form, notice, section, table, textArea, time } from '../frame/components.ts';
import { endUserLink } from '../frame/end-user.ts';
import type { SubmittedForm } from '../frame/field-errors.ts';
import { type Html, html } from '../frame/html.ts';
import { messagesPerPage } from '../frame/paging.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import { shorten } from '../frame/values.ts';
import { kindLabels, memoryPath, originLabels, ratingsLabel, stateBadges, styles, subjectLink } from './item-view.ts';

interface ShownMemory extends ItemDetails {
  readonly facts: readonly Fact[];
  readonly names: ReadonlyMap<string, string>;
  /** A correction that was just rejected, to show it in the form again. */
  readonly rejected: SubmittedForm | undefined;
}

export function memoryDetailView(context: ConsoleContext, shown: ShownMemory): PageContent {
  const { item, history, votes, source, facts, rejected, names } = shown;
  const isLive = item.state === 'live';
  const pin = item.pinned ? button(context, item, 'unpin', 'Unpin') : button(context, item, 'pin', 'Pin');
  return {
    kind: 'page',
    title: 'Memory',
    styles: [styles],
    breadcrumbs: [{ label: 'Memory', href: memoryPath(context) }],
    ...(isLive && { actions: html`${pin}${button(context, item, 'remove', 'Remove', true)}` }),
    ...(isRemoved(item) && { actions: button(context, item, 'restore', 'Restore') }),
    content: html`<div class="stack">
<div class="card"><p class="text memory-text">${item.text}</p><p>${badge(kindLabels[item.kind])}${stateBadges(item)}</p></div>
${isLive && !item.inRecall ? leftOut(context, item) : ''}${item.closedAt === null ? '' : closedNotice(context, shown, item.closedAt)}${properties(context, shown)}
${source === null ? '' : sourceSection(context, item, source)}
${votes.length === 0 ? '' : voteSection(context, votes)}
${history.length < 2 ? '' : historySection(context, item, history, names)}
${facts.length === 0 ? '' : factSection(context, facts)}
${isLive ? correction(context, item, rejected) : ''}</div>`,
  };
}

function button(context: ConsoleContext, { id }: Item, verb: string, label: string, danger = false): Html {
  return actionButton({ context, action: `${memoryPath(context, id)}/${verb}`, label, danger, about: 'this memory' });
}

/**
 * We also close memories that were corrected, merged or restored, but then another memory has taken their place. So we
 * only call a memory removed if it has no successor.
 */
function isRemoved({ state, supersededBy }: Item): boolean {
  return state === 'closed' && supersededBy === null;
}

function leftOut(context: ConsoleContext, item: Item): Html {
  return html`<div class="notice warning"><p class="notice-title">Left out of recall</p>
<p>It was rated wrong ${item.wrong} times. If it is right, confirm it: recall then uses it again.</p>${button(context, item, 'confirm', 'Confirm')}</div>`;
}

/** Says what happened to the memory, when and by whom, with a link to its successor. */
function closedNotice(context: ConsoleContext, { item, history, names }: ShownMemory, closedAt: Date): Html {
  const { verb, successor } = endOf(item, history);
  // Older versions didn't store who closed a memory. If it was corrected, that must have been the author of the
  // correction. In all other cases we can't tell.
  const author = item.closedBy ?? (verb === corrected ? successor?.author : undefined);
  const by = author === undefined ? '' : html` by <strong>${authorName(author, names)}</strong>`;
  const next = successor === undefined ? '' : html` <a href="${memoryPath(context, successor.id)}">See what took its place</a>.`;
  return notice(html`${verb}${by}, ${time(closedAt, context.zone)}.${next}`);
}

function properties(context: ConsoleContext, { item, names }: ShownMemory): Html {
  const { zone } = context;
  return definitions([
    ['Subject', subjectLink(context, item.subject)],
    ['Importance', `${item.importance} of 5`],
    ['Origin', originLabels[item.origin]],
    ['Author', authorName(item.author, names)],
    ['Ratings', ratingsLabel(item)],
    ['Written', time(item.createdAt, zone)],
    ['Changed', time(item.updatedAt, zone)],
    ['Id', copyable(item.id)],
  ]);
}

function sourceSection(context: ConsoleContext, { conversationId }: Item, source: ItemSource): Html {
  const { evidence, messages, conversationTitle, batchId } = source;
  const conversation = projectPath(context, `/conversations/${conversationId}`);
  const quotes = messages.map(({ position, role, excerpt, createdAt }) => {
    const from = Math.floor(position / messagesPerPage) * messagesPerPage;
    return html`<li><p class="hint">${role === 'user' ? 'User' : 'Assistant'}, ${time(createdAt, context.zone)} ·
<a href="${conversation}${from === 0 ? '' : `?from=${from}`}#message-${position}">message ${position + 1}</a></p>
<blockquote class="text">${highlight(excerpt, evidence ?? '')}</blockquote></li>`;
  });
  const quotation = evidence === null ? '' : html`<div class="quotes"><blockquote class="text"><mark>${evidence}</mark></blockquote></div>`;
  const origin =
    conversationId === null
      ? html`<p>The conversation was deleted.</p>`
      : html`<p>Learned from the conversation <a href="${conversation}">${conversationTitle || 'without a title'}</a></p>`;
  const batch =
    batchId === null ? '' : html`<p><a href="${projectPath(context, `/batches/${batchId}`)}">The learning batch that found it</a></p>`;
  return section(
    'Source',
    html`<div class="card stack">${origin}${quotes.length === 0 ? quotation : html`<ul class="quotes">${quotes}</ul>`}${batch}</div>`,
  );
}

function highlight(text: string, part: string): Html | string {
  const at = part === '' ? -1 : text.indexOf(part);
  if (at < 0) return text;
  return html`${text.slice(0, at)}<mark>${part}</mark>${text.slice(at + part.length)}`;
}

function historySection(context: ConsoleContext, current: Item, history: readonly Item[], names: ReadonlyMap<string, string>): Html {
  const rows = table({
    caption: 'Corrections, merges and restorations',
    columns: [
      {
        label: 'Text',
        value: (item: Item) => html`${shorten(item.text)}${item.id === current.id ? html` ${badge('This one', 'accent')}` : ''}`,
        grow: true,
      },
      { label: 'State', value: (item) => historyState(item, history) },
      { label: 'Author', value: ({ author }) => authorName(author, names) },
      { label: 'Written', value: ({ createdAt }) => time(createdAt, context.zone, 'minute') },
    ],
    rows: history,
    rowHref: ({ id }) => memoryPath(context, id),
  });
  return section('History', rows, { hint: 'Corrections, merges and restorations, the oldest first. Nothing is overwritten.' });
}

function historyState(item: Item, history: readonly Item[]): Html {
  return item.state === 'live' ? badge('Live', 'good') : badge(endOf(item, history).verb);
}

const corrected = 'Corrected';

/**
 * Says why a memory was closed, and finds the memory that took its place. If the memory was merged, we may not find its
 * successor, because `history` only contains a part of the history.
 */
function endOf({ id, text, supersededBy }: Item, history: readonly Item[]): { readonly verb: string; readonly successor?: Item } {
  if (supersededBy === null) return { verb: 'Removed' };
  const successor = history.find(({ supersedes }) => supersedes === id);
  if (successor) return { verb: successor.text === text ? 'Removed, then restored' : corrected, successor };
  const merged = history.find((item) => item.id === supersededBy);
  return { verb: 'Merged', ...(merged && { successor: merged }) };
}

function voteSection(context: ConsoleContext, votes: readonly StoredVote[]): Html {
  const rows = table<StoredVote>({
    caption: 'Votes of keys',
    columns: [
      { label: 'Vote', value: ({ useful }) => (useful ? badge('Useful', 'good') : badge('Wrong', 'warning')) },
      {
        label: 'Counts for',
        value: ({ subject }) => (subject === null ? 'Everybody who can see it' : endUserLink(context, subject)),
        grow: true,
      },
      {
        label: 'Recalled in',
        value: ({ callId }) =>
          callId === null ? html`<span class="muted">–</span>` : html`<a href="${projectPath(context, `/calls/${callId}`)}">the call</a>`,
      },
      { label: 'Time', value: ({ votedAt }) => time(votedAt, context.zone, 'minute') },
    ],
    rows: votes,
  });
  return section('Votes', rows, {
    hint: 'Each key has one vote, which is its latest rating. Votes move the memory up or down in search and recall, by at most a tenth of its score.',
  });
}

function factSection(context: ConsoleContext, facts: readonly Fact[]): Html {
  const entity = (name: string) =>
    html`<a class="cut" title="${name}" href="${projectPath(context, '/graph', { entity: name })}">${name}</a>`;
  const rows = table({
    caption: 'Facts that cite this memory',
    columns: [
      { label: 'Fact', value: ({ fact }: Fact) => fact, grow: true },
      { label: 'From', value: ({ sourceName }) => entity(sourceName) },
      { label: 'Relation', value: ({ relation }) => html`<code>${relation}</code>` },
      { label: 'To', value: ({ targetName }) => entity(targetName) },
      { label: 'Valid since', value: ({ validFrom }) => ago(validFrom, context.now, context.zone) },
      { label: 'State', value: ({ validTo }) => (validTo === null ? badge('Live', 'good') : badge('Ended')) },
    ],
    rows: facts,
  });
  return section('Facts that cite it', rows);
}

function correction(context: ConsoleContext, { id, text }: Item, rejected: SubmittedForm | undefined): Html {
  const content = form({
    context,
    action: `${memoryPath(context, id)}/correct`,
    submit: 'Correct',
    label: 'Correct this memory',
    fields: [
      textArea({
        ...{ name: 'text', label: 'New text', value: rejected?.form.get('text') ?? text, error: rejected?.errors.of('text') },
        ...{ required: true, rows: 5, maxLength: 4_000 },
      }),
    ],
  });
  return section('Correct', html`<div class="card">${content}</div>`, {
    hint: 'A new memory with this text replaces it, with the same subject, kind, importance and pin. Applications cannot change it afterwards.',
  });
}
