/**
 * Shows the prompt and response of a call on demand, with the parameters, tools and system prompt. The text is
 * untrusted, so templates escape it.
 */
import type { CallExtra, CallMessage, CallText } from '../../memory/conversations/read-call-text.ts';
import type { CallDetail } from '../../usage/analytics/call-detail.ts';
import { card, codeBlock, countOf, definitions, formatCount, section, withQuery } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext } from '../frame/route.ts';
import { rebuildRequest, toCurl } from './rebuild-request.ts';

export function textSection(context: ConsoleContext, call: CallDetail, text: CallText | 'on demand' | 'not stored' | null): Html {
  if (text === null || text === 'not stored')
    return section('Prompt and response', card(html`<p class="muted">No text of this call is stored.</p>`));
  if (text === 'on demand') {
    const link = replacing(context, { text: 1 }, 'Show prompt and response');
    return section('Prompt and response', card(html`<p class="muted">The text is stored, but only shown on demand.</p>`), {
      actions: link,
      id: 'text',
    });
  }
  const { messages, answered, hasOlder, extras, hasMoreExtras } = text;
  const systems = extras.filter(({ kind }) => kind === 'system');
  const tools = extras.filter(({ kind }) => kind === 'tool');
  const others = extras.filter(({ kind }) => kind !== 'system' && kind !== 'tool');
  const actions = html`${openInPlayground(context, call)}${replacing(context, { text: null }, 'Hide')}`;
  const content = html`${parametersOf(text)}${systems.map(systemOf)}${toolsOf(tools)}
${hasOlder ? html`<p class="hint">Older messages of the prompt are not shown.</p>` : ''}
${messages.map((message, index) => messageOf(message, answered && index === messages.length - 1))}
${answered ? '' : html`<p class="hint">There is no response.</p>`}
${folded(`${formatCount(others.length)} other ${others.length === 1 ? 'part' : 'parts'} of the prompt: tool results, attachments`, others, hasMoreExtras)}
${curlOf(context, call, text)}`;
  return section('Prompt and response', html`<div class="stack">${content}</div>`, { actions, id: 'text' });
}

function replacing(context: ConsoleContext, changes: Readonly<Record<string, number | null>>, label: string): Html {
  const href = withQuery(context, changes);
  return html`<a class="button" href="${href}#text" hx-get="${href}" hx-select="#text" hx-target="#text" hx-swap="outerHTML">${label}</a>`;
}

function openInPlayground(context: ConsoleContext, { id, route }: CallDetail): Html | string {
  if (route !== 'chat' && route !== 'messages' && route !== 'responses') return '';
  return html`<a class="button" href="${projectPath(context, '/playground', { from: id })}">Open in playground</a>`;
}

function parametersOf({ parameters }: CallText): Html {
  const shown = parameters === null ? [] : Object.entries(parameters);
  const values = shown.map(([name, value]): [string, Html] => [
    name,
    html`<code>${typeof value === 'string' ? value : JSON.stringify(value)}</code>`,
  ]);
  const empty = parameters === null ? 'No parameters are stored for this call.' : 'The request set no parameters.';
  return html`<article class="card"><h3>Parameters</h3>${shown.length === 0 ? html`<p class="muted">${empty}</p>` : definitions(values)}</article>`;
}

function systemOf({ text, isCut }: CallExtra): Html | string {
  if (text === null) return '';
  return html`<article class="card message"><h3>System prompt</h3>${withCopy(text, 'system prompt')}${isCut ? cutHint : ''}</article>`;
}

function toolsOf(tools: readonly CallExtra[]): Html | string {
  if (tools.length === 0) return '';
  return html`<details class="card"><summary>${countOf(tools.length, 'tool')}: ${tools.map(({ type }) => type).join(', ')}</summary><div class="stack">${tools.map(
    ({ type, text, isCut }) => html`${codeBlock(text ?? '', `Definition of ${type}`)}${isCut ? cutHint : ''}`,
  )}</div></details>`;
}

function messageOf({ role, text, textLength, toolCalls, isCut }: CallMessage, isResponse: boolean): Html {
  const label = isResponse ? 'Response' : role === 'user' ? 'User' : 'Assistant';
  const shown = [...text].length;
  return html`<article class="card message"><h3>${label}</h3>${text === '' ? '' : withCopy(text, label.toLowerCase())}${
    textLength > shown ? html`<p class="hint">Showing the first ${formatCount(shown)} of ${formatCount(textLength)} characters.</p>` : ''
  }${toolCalls.map(
    ({ name, arguments: given }) => html`<p class="muted">Calls <code>${name}</code></p><pre class="text"><code>${given}</code></pre>`,
  )}${isCut && textLength <= shown ? html`<p class="hint">Only the beginning of long arguments is shown.</p>` : ''}</article>`;
}

const cutHint = html`<p class="hint">Only the beginning is shown.</p>`;

/** The copy button needs JavaScript. */
function withCopy(text: string, about: string): Html {
  return html`<div class="copied-text"><div class="text" data-copied>${text}</div><button class="button small copy" type="button" data-copy hidden aria-label="Copy the ${about}">Copy</button></div>`;
}

function folded(title: string, parts: readonly CallExtra[], hasMore: boolean): Html | string {
  if (parts.length === 0) return '';
  const note = hasMore ? html`<p class="hint">More parts exist, but they are not shown.</p>` : '';
  return html`<details class="card"><summary>${title}</summary><div class="stack">${note}${parts.map(extraOf)}</div></details>`;
}

function extraOf({ kind, type, text, bytes, isCut }: CallExtra): Html {
  return html`<div><p class="muted">${kind === type ? kind : `${kind}, ${type}`}${bytes === null ? '' : `, ${formatCount(bytes)} bytes`}</p>${
    text === null ? '' : html`<div class="text">${text}</div>`
  }${isCut ? cutHint : ''}</div>`;
}

function curlOf({ origin }: ConsoleContext, call: CallDetail, text: CallText): Html | string {
  const rebuilt = rebuildRequest(call, text);
  if (rebuilt === null) return '';
  const { body, isPartial } = rebuilt;
  const note = isPartial
    ? html`<p class="hint">The request is not complete: attachments are not stored, and long texts are cut off.</p>`
    : html`<p class="hint">Put a virtual key into GATEWAY_KEY.</p>`;
  return html`<details class="card"><summary>Copy as curl</summary><div class="stack">${note}${codeBlock(toCurl(call.route, body, origin), 'The request as a curl command')}</div></details>`;
}
