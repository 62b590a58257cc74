import type { Queries } from '../../db/database.ts';
import { type ConversationMessage, type ConversationView, listMessages } from '../../memory/conversations/list-conversations.ts';
import { badge, formatCount, time, withQuery } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { messagesPerPage } from '../frame/paging.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext } from '../frame/route.ts';

const maxMessageLength = 4_000;
export const maxTextLength = 30_000;

export async function messagesView(queries: Queries, context: ConsoleContext, conversation: ConversationView): Promise<Html> {
  const from = Math.max(0, Math.trunc(Number(context.url.searchParams.get('from')) || 0));
  const rows = await listMessages(queries, conversation.id, {
    from: Math.min(from, 1e9),
    limit: messagesPerPage,
    maxText: maxMessageLength,
  });
  const last = from + rows.length;
  const link = (label: string, target: number, rel: string) =>
    html`<a class="button" rel="${rel}" href="${withQuery(context, { from: target === 0 ? null : target })}">${label}</a>`;
  const paging = html`<nav class="pager" aria-label="Pages of messages">${from > 0 ? link('Earlier', Math.max(0, from - messagesPerPage), 'prev') : ''}${
    last < conversation.messages ? link('Later', last, 'next') : ''
  }</nav>`;
  const range = rows.length === 0 ? 'No messages' : `Messages ${from + 1} to ${last} of ${conversation.messages}`;
  return html`<p class="hint">${range}</p><ol class="messages" start="${from + 1}">${rows.map((row) => message(context, row))}</ol>${paging}`;
}

function message(context: ConsoleContext, row: ConversationMessage): Html {
  const { position, role, text, textLength, toolCalls, callId, createdAt } = row;
  const call = callId === null ? '' : html` · <a href="${projectPath(context, `/calls/${callId}`)}">Call</a>`;
  const tools = toolCalls.map(
    ({ name, arguments: given }) => html`<p class="tool-call">${badge('Tool call')} <code>${name}(${given})</code></p>`,
  );
  return html`<li id="message-${position}" class="message ${role}"><p class="message-head"><strong>${role === 'user' ? 'User' : 'Assistant'}</strong>
<span class="muted">${time(createdAt, context.zone)}${call}</span></p>${text === '' ? '' : html`<p class="text">${text}</p>`}${cutHint(maxMessageLength, textLength)}${tools}</li>`;
}

export function textView(_queries: Queries, { url }: ConsoleContext, { text, textLength, state }: ConversationView): Html {
  if (text === null)
    return html`<div class="empty"><p class="empty-title">Not closed yet</p><p>${
      state === 'stored' ? 'The gateway closes a conversation when no call has arrived for a while.' : 'This conversation has no text.'
    }</p></div>`;
  return html`<div class="card stack"><p class="hint">The messages and the assistant's tool calls at the time when the conversation was closed.
<a href="${url.pathname}/text" download>Download</a></p><p class="text prose">${text}</p>${cutHint(maxTextLength, textLength)}</div>`;
}

function cutHint(shown: number, length: number): Html | string {
  return length > shown ? html`<p class="hint">Showing the first ${formatCount(shown)} of ${formatCount(length)} characters.</p>` : '';
}
