/** Shows the prompt and response of a call on demand. The text is untrusted, but our templates escape it. */
import type { CallText } from '../../memory/conversations/read-call-text.ts';
import { card, formatCount, section, withQuery } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import type { ConsoleContext } from '../frame/route.ts';

export function textSection(context: ConsoleContext, text: CallText | 'on demand' | 'not stored' | null): Html {
  if (text === null || text === 'not stored')
    return section('Prompt and response', card(html`<p class="muted">No text of this call is stored.</p>`));
  if (text === 'on demand') {
    const link = html`<a class="button" href="${withQuery(context, { text: 1 })}#text">Show prompt and response</a>`;
    return section('Prompt and response', card(html`<p class="muted">The text is stored, but only shown on demand.</p>`), {
      actions: link,
      id: 'text',
    });
  }
  const { messages, answered, hasOlder, extras, hasMoreExtras } = text;
  const hide = html`<a class="button" href="${withQuery(context, { text: null })}">Hide</a>`;
  const content = html`${hasOlder ? html`<p class="hint">Older messages of the prompt are not shown.</p>` : ''}
${messages.map((message, index) => messageOf(message, answered && index === messages.length - 1))}
${extras.length === 0 ? '' : html`<details class="card"><summary>${formatCount(extras.length)} other ${extras.length === 1 ? 'part' : 'parts'} of the prompt: system prompts, tool results, attachments</summary><div class="stack">${hasMoreExtras ? html`<p class="hint">More parts exist, but they are not shown.</p>` : ''}${extras.map(extraOf)}</div></details>`}`;
  return section('Prompt and response', html`<div class="stack">${content}</div>`, { actions: hide, id: 'text' });
}

function messageOf({ role, text, textLength, toolCalls }: CallText['messages'][number], isResponse: boolean): Html {
  return html`<article class="card message"><h3>${isResponse ? 'Response' : role === 'user' ? 'User' : 'Assistant'}</h3>${
    text === '' ? '' : html`<div class="text">${text}</div>`
  }${textLength > text.length ? html`<p class="hint">Showing the first ${formatCount(text.length)} of ${formatCount(textLength)} characters.</p>` : ''}${toolCalls.map(
    ({ name, arguments: given }) => html`<p class="muted">Calls <code>${name}</code></p><pre class="text"><code>${given}</code></pre>`,
  )}</article>`;
}

function extraOf({ kind, type, text, bytes }: CallText['extras'][number]): Html {
  return html`<div><p class="muted">${kind === type ? kind : `${kind}, ${type}`}${bytes === null ? '' : `, ${formatCount(bytes)} bytes`}</p>${
    text === null ? '' : html`<div class="text">${text}</div>`
  }</div>`;
}
