/**
 * Shows what memory did for a call: its conversation, the memories that recall put into the prompt, what they cost, and
 * whether the response mentions them.
 */
import type { CallMemory, RecalledMemory } from '../../memory/conversations/read-call-text.ts';
import type { CallDetail } from '../../usage/analytics/call-detail.ts';
import { badge, card, formatCount, section, table, usd } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext } from '../frame/route.ts';
import { shorten } from '../frame/values.ts';

/**
 * The terms that the response seems to have taken from each memory, by memory id. This doesn't include terms that also
 * occur in the prompt.
 */
type Mentions = ReadonlyMap<string, readonly string[]>;

interface ShownMemory {
  readonly call: Pick<CallDetail, 'cost' | 'cache'>;
  readonly memory: CallMemory | null;
  /** Null if the call's response isn't stored. */
  readonly mentions: Mentions | null;
}

const maxTextLength = 160;

export function memorySection(context: ConsoleContext, { call, memory, mentions }: ShownMemory): Html | string {
  if (!memory || (memory.recalled.length === 0 && memory.conversationId === null)) return '';
  const { recalled, recalledTokens, conversationId } = memory;
  const conversation =
    conversationId === null
      ? ''
      : html`<p>Part of the conversation <a href="${projectPath(context, `/conversations/${conversationId}`)}"><code>${conversationId}</code></a>.</p>`;
  if (recalled.length === 0)
    return section(
      'Memory',
      card(html`<div class="stack">${conversation}<p class="muted">No memories were added to the prompt.</p></div>`),
    );
  const count = `${formatCount(recalled.length)} ${recalled.length === 1 ? 'memory was' : 'memories were'} added to the prompt`;
  return section(
    'Memory',
    html`${card(html`<div class="stack">${conversation}<p>${count}${describeCost(call, recalledTokens)}.${describeMentions(recalled, mentions)}</p></div>`)}
${memoryTable(context, recalled, mentions)}`,
  );
}

/**
 * Describes the cost of the inserted memory block. Its tokens are an estimate, and the vendor may have charged less if
 * the block was in its cache.
 */
function describeCost({ cost, cache }: ShownMemory['call'], tokens: number | null): Html | string {
  if (cache === 'hit') return html`, which cost nothing because the response came from the response cache`;
  if (tokens === null) return '';
  const price = cost.lines.find(({ item }) => item === 'input')?.priceNanos ?? null;
  const nanos = price === null ? null : Math.round((tokens * Number(price)) / 1_000_000);
  return html` and took about <strong>${formatCount(tokens)} tokens</strong>${nanos === null ? '' : html`, which cost ${usd(nanos)} at the model's price for input`}`;
}

function describeMentions(recalled: readonly RecalledMemory[], mentions: Mentions | null): Html | string {
  if (mentions === null) return '';
  const mentioned = recalled.filter(({ id }) => (mentions.get(id) ?? []).length > 0).length;
  const what = mentioned === 0 ? 'none of them' : mentioned === recalled.length ? 'all of them' : `${formatCount(mentioned)} of them`;
  return ` The response mentions ${what}.`;
}

function memoryTable(context: ConsoleContext, recalled: readonly RecalledMemory[], mentions: Mentions | null): Html {
  return html`${table<RecalledMemory>({
    caption: 'Memories in the prompt',
    columns: [
      {
        label: 'Memory',
        grow: true,
        value: ({ id, text }) =>
          text === null
            ? html`<code>${id}</code> <span class="muted">deleted</span>`
            : html`<a href="${projectPath(context, `/memory/${id}`)}">${shorten(text, maxTextLength)}</a>`,
      },
      { label: 'Kind', value: ({ kind }) => (kind === null ? '' : badge(kind)) },
      ...(mentions === null ? [] : [{ label: 'Mentioned', value: ({ id }: RecalledMemory) => mentionOf(mentions.get(id) ?? []) }]),
    ],
    rows: recalled,
  })}${
    mentions === null
      ? ''
      : html`<p class="hint">A memory counts as mentioned if the response has a name, a number or at least two longer words from it that are not in the prompt. So a response can use a memory without mentioning it.</p>`
  }`;
}

function mentionOf(terms: readonly string[]): Html {
  return terms.length === 0
    ? html`<span class="muted">–</span>`
    : html`${badge('Mentioned', 'good')} <span class="cut">${terms.join(', ')}</span>`;
}
