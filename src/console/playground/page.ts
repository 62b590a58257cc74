import { GatewayError } from '../../core/errors.ts';
import type { PlaygroundToolCall } from '../../pipeline/internal/playground-prompt.ts';
import { defineAsset } from '../frame/assets.ts';
import {
  checkboxField,
  codeBlock,
  csrfField,
  definitions,
  emptyState,
  notice,
  type SelectOptions,
  section,
  selectField,
  sentence,
  textArea,
  textField,
  withChosen,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import { isDataUrl, type PlaygroundInput } from './input.ts';
import type { RunEnd } from './run.ts';
import { snippetsOf } from './snippets.ts';
import { callList, turnList } from './turns-view.ts';

const script = defineAsset(new URL('./playground.js', import.meta.url));
const styles = defineAsset(new URL('./playground.css', import.meta.url));

export interface ModelChoice {
  readonly tiers: readonly string[];
  readonly models: readonly string[];
}

export interface RunResult {
  readonly model: string;
  readonly text: string;
  readonly toolCalls: readonly PlaygroundToolCall[];
  readonly end: RunEnd | null;
}

interface PlaygroundView {
  readonly input: PlaygroundInput;
  readonly choice: ModelChoice;
  readonly results: readonly RunResult[];
  readonly hint?: Html;
}

const noResult: RunResult = { model: '', text: '', toolCalls: [], end: null };

export function playgroundPage(context: ConsoleContext, { input, choice, results, hint }: PlaygroundView): PageContent {
  const { tiers, models } = choice;
  if (tiers.length + models.length === 0 && input.model === '')
    return { kind: 'page', title: 'Playground', content: noModels(context), styles: [styles] };
  const chosen = { ...input, model: input.model || (tiers.includes('standard') ? 'standard' : (tiers[0] ?? models[0] ?? '')) };
  const content = html`${hint ?? ''}${playgroundForm(context, chosen, choice, results)}
<template id="result">${resultCard(noResult)}</template>
${section('Code', html`<div id="code" class="stack">${codeBlocks(chosen, context.origin)}</div>`, {
  hint: 'The same call from an application. Put a virtual key into GATEWAY_KEY.',
})}`;
  return { kind: 'page', title: 'Playground', content, scripts: [script], styles: [styles] };
}

function noModels(context: ConsoleContext): Html {
  return emptyState(
    'No chat model',
    'The project has no chat model that it may use. Put one into a tier, or allow its provider.',
    html`<a class="button primary" href="${projectPath(context, '/routing')}">Open routing</a>`,
  );
}

/** Formatting and escaping a longer prompt for all three languages would block the event loop. */
const maxCodeLength = 64 * 1024;

export function codeBlocks(input: PlaygroundInput, origin: string): Html {
  if (textLengthOf(input) > maxCodeLength) return notice('The prompt is too long to be shown as code.', 'neutral');
  try {
    return html`${snippetsOf(input, origin).map(
      ({ title, text }, index) =>
        html`<details class="code-choice" name="code"${index === 0 ? html` open` : ''}><summary>${title}</summary>${codeBlock(text, title)}</details>`,
    )}`;
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    return notice(sentence(error.message), 'warning');
  }
}

function textLengthOf(input: PlaygroundInput): number {
  return JSON.stringify({ ...input, images: [], turns: input.turns.map((turn) => ({ ...turn, images: [] })) }).length;
}

function playgroundForm(context: ConsoleContext, input: PlaygroundInput, choice: ModelChoice, results: readonly RunResult[]): Html {
  const path = projectPath(context, '/playground');
  const edit = `${path}/edit`;
  const hasTurns = input.turns.length > 0;
  // Pressing Enter in a field activates the form's first submit button. Put a hidden `Run` button first, because it
  // would otherwise be a button of one of the turns.
  return html`<form class="playground" id="playground" method="post" action="${path}" data-stream="${path}/stream"
hx-post="${path}/code" hx-trigger="input delay:300ms" hx-target="#code" hx-sync="this:replace">
${csrfField(context)}<button class="hidden" tabindex="-1" aria-hidden="true">Run</button>
<div class="card playground-settings">${settings(input, choice)}</div>
<div class="stack">
<div class="card">
${textArea({ name: 'system', label: 'System prompt', rows: 3, value: input.system })}
${turnList(input.turns, edit)}
${textArea({ name: 'prompt', label: 'Message', rows: hasTurns ? 3 : 6, value: input.prompt, required: !hasTurns })}
${imageFields(input.images)}
${formatFields(input)}
<div class="form-actions"><button class="button primary">Run</button><button class="button" type="button" id="stop" hidden>Stop</button><button class="button" name="do" value="add" formaction="${edit}" formnovalidate>Add a turn</button>${
    hasTurns ? html`<button class="button plain" name="do" value="clear" formaction="${edit}" formnovalidate>Start over</button>` : ''
  }</div>
</div>
<div class="columns" id="results" aria-live="polite">${(results.length > 0 ? results : [noResult]).map((result, index) => resultCard(result, edit, index))}</div>
</div></form>`;
}

function settings(input: PlaygroundInput, choice: ModelChoice): Html {
  const number = (value: number | null) => (value === null || Number.isNaN(value) ? null : value);
  return html`${selectField({ name: 'model', label: 'Model', required: true, value: input.model, options: options(choice, input.model) })}
${selectField({ name: 'other', label: 'Compare with', value: input.other, options: [{ value: '', label: 'Nothing' }, ...options(choice, input.other)] })}
${textField({ name: 'temperature', label: 'Temperature', type: 'number', min: 0, max: 2, step: 'any', value: number(input.temperature) })}
${textField({ name: 'max_tokens', label: 'Max tokens', type: 'number', min: 1, step: 1, value: number(input.maxTokens) })}
${foldOut(
  'Memory',
  input.recalls || input.subject !== '',
  html`${checkboxField({ name: 'memory', value: 'recall', label: 'Recall memories', checked: input.recalls, hint: 'Memory never learns from the playground.' })}${textField(
    {
      name: 'subject',
      label: 'End user',
      value: input.subject,
      maxLength: 256,
      autocomplete: 'off',
      hint: 'Whose memories to recall. Without one, all of the project.',
    },
  )}`,
)}`;
}

function formatFields(input: PlaygroundInput): Html {
  return html`${foldOut(
    'Tools',
    input.tools.trim() !== '',
    textArea({
      ...{ name: 'tools', label: 'Tools as JSON', rows: 8, code: true, value: input.tools },
      placeholder: '[{"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]',
      hint: 'In the format of OpenAI or Anthropic. You write the results of the tools yourself.',
    }),
  )}
${foldOut(
  'JSON response',
  input.schema.trim() !== '',
  textArea({
    ...{ name: 'schema', label: 'JSON schema', rows: 8, code: true, value: input.schema },
    placeholder: '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false}',
    hint: html`The response follows this schema strictly. To set its name, or <code>strict</code>, put it into <code>{"name": …, "strict": …, "schema": …}</code>.`,
  }),
)}`;
}

function foldOut(title: string, isOpen: boolean, content: Html): Html {
  return html`<details class="fold-out"${isOpen ? html` open` : ''}><summary>${title}</summary><div class="stack">${content}</div></details>`;
}

/** A script converts chosen files to `data:` URLs. Without JavaScript, people can only enter an image's URL. */
function imageFields(images: readonly string[]): Html {
  const address = images.filter((url) => !isDataUrl(url))[0] ?? '';
  const files = images.filter(isDataUrl);
  return html`<details class="fold-out"${images.length > 0 ? html` open` : ''}><summary>Images</summary><div class="stack">
${textField({ name: 'image', label: 'Address of an image', type: 'url', value: address, placeholder: 'https://', autocomplete: 'off' })}
<div class="field" id="image-files" hidden><label for="image-file">File</label><input id="image-file" type="file" accept="image/png,image/jpeg,image/gif,image/webp" multiple></div>
<ul class="pictures" id="pictures">${files.map(
    (url, index) => html`<li><img src="${url}" alt="Image ${index + 1}"><input type="hidden" name="image" value="${url}"></li>`,
  )}</ul></div></details>`;
}

function options({ tiers, models }: ModelChoice, chosen: string): SelectOptions {
  const known = [
    ...tiers.map((name) => ({ value: name, label: name, group: 'Tiers' })),
    ...models.map((id) => ({ value: id, label: id, group: id.slice(0, id.indexOf('/')) })),
  ];
  return withChosen(known, chosen, 'Others');
}

/** Hidden fields contain the response, so that the person can continue the conversation with it. */
function resultCard({ model, text, toolCalls, end }: RunResult, action = '', index = 0): Html {
  const hasAnswer = text !== '' || toolCalls.length > 0;
  return html`<article class="card result"><h2 class="result-model">${model === '' ? 'Response' : model}</h2>
<div class="result-error">${end === null || end.error === null ? '' : notice(end.error, 'bad')}</div>
<p class="text result-text">${!hasAnswer && end === null ? html`<span class="muted">The response appears here.</span>` : text}</p>
<div class="result-tools">${callList(toolCalls)}</div>
<div class="result-figures">${end === null ? '' : definitions(end.figures)}</div>
<div class="actions"><button class="button small result-continue" name="do" value="continue.${index}" formaction="${action}" formnovalidate${hasAnswer ? '' : html` hidden`}>Continue with this response</button><span class="result-links">${
    end === null ? '' : end.links.map(([label, href]) => html`<a href="${href}">${label}</a> `)
  }</span></div>
<input type="hidden" name="answer_text" value="${text}"><input type="hidden" name="answer_calls" value="${toolCalls.length === 0 ? '' : JSON.stringify(toolCalls)}"></article>`;
}
