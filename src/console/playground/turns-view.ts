/**
 * Renders the conversation in the playground's form. The parser finds the fields of a turn by their index, so every
 * turn needs the same fields. Those that a turn doesn't use are hidden.
 */
import type { PlaygroundTurn } from '../../pipeline/internal/playground-prompt.ts';
import { type Html, html } from '../frame/html.ts';
import { isDataUrl } from './input.ts';

const roleLabels = { user: 'User', assistant: 'Assistant', tool: 'Tool result' } as const;

export function turnList(turns: readonly PlaygroundTurn[], action: string): Html | string {
  if (turns.length === 0) return '';
  return html`<ol class="turns" aria-label="Conversation">${turns.map((turn, index) => html`<li class="turn">${turnFields(turn, index, nameOfTool(turns, turn), action)}</li>`)}</ol>`;
}

function turnFields(turn: PlaygroundTurn, index: number, tool: string | null, action: string): Html {
  const { role, text, images, toolCalls, toolCallId } = turn;
  const id = `turn-${index}`;
  const label = `${index + 1}. ${tool === null ? roleLabels[role] : `Result of ${tool}`}`;
  // A tool result belongs to a call in an earlier turn, so its role can't be changed.
  const roleField =
    role === 'tool'
      ? html`<input type="hidden" name="turn_role" value="tool"><span>Tool result</span>`
      : html`<label class="hidden" for="${id}-role">Role of turn ${index + 1}</label><select id="${id}-role" name="turn_role">${(
          ['user', 'assistant'] as const
        ).map((value) => html`<option value="${value}"${value === role ? html` selected` : ''}>${roleLabels[value]}</option>`)}</select>`;
  const rows = Math.min(12, Math.max(2, text.split('\n').length, Math.ceil(text.length / 90)));
  return html`<div class="turn-head">${roleField}${tool === null ? '' : html`<code>${tool}</code>`}<button class="button small plain" name="do" value="remove.${index}" formaction="${action}" formnovalidate>Remove<span class="hidden"> turn ${index + 1}</span></button></div>
<label class="hidden" for="${id}-text">${label}</label><textarea id="${id}-text" name="turn_text" rows="${rows}"${role === 'tool' ? html` placeholder="What the tool returns"` : ''}>
${text}</textarea>${callList(toolCalls)}${pictures(images)}
<input type="hidden" name="turn_calls" value="${toolCalls.length === 0 ? '' : JSON.stringify(toolCalls)}"><input type="hidden" name="turn_call_id" value="${toolCallId}"><input type="hidden" name="turn_images" value="${images.length === 0 ? '' : JSON.stringify(images)}">`;
}

/** Returns the tool's name if the turn is a tool result, and null otherwise. */
function nameOfTool(turns: readonly PlaygroundTurn[], { role, toolCallId }: PlaygroundTurn): string | null {
  if (role !== 'tool') return null;
  return turns.flatMap(({ toolCalls }) => toolCalls).find(({ id }) => id === toolCallId)?.name ?? 'a tool';
}

export function callList(calls: PlaygroundTurn['toolCalls']): Html {
  return html`${calls.map(({ name, arguments: given }) => html`<div class="tool-call"><p class="muted">Calls <code>${name}</code></p><pre class="text"><code>${given}</code></pre></div>`)}`;
}

function pictures(images: readonly string[]): Html | string {
  if (images.length === 0) return '';
  return html`<ul class="pictures">${images.map(
    (url, index) =>
      html`<li>${isDataUrl(url) ? html`<img src="${url}" alt="Image ${index + 1}">` : html`<code class="cut">${url}</code>`}</li>`,
  )}</ul>`;
}
