/** Renders the playground with its form, the responses side by side, and the call as code. */
import { defineAsset } from '../frame/assets.ts';
import {
  card,
  codeBlock,
  csrfField,
  definitions,
  notice,
  type Option,
  section,
  selectField,
  textArea,
  textField,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import type { PlaygroundInput } from './input.ts';
import type { RunEnd } from './run.ts';
import { curlSnippet, pythonSnippet, typescriptSnippet } from './snippets.ts';

const script = defineAsset(new URL('./playground.js', import.meta.url));
const styles = defineAsset(new URL('./playground.css', import.meta.url));

export interface ModelChoice {
  readonly tiers: readonly string[];
  readonly models: readonly string[];
}

export interface RunResult {
  readonly model: string;
  readonly text: string;
  readonly end: RunEnd | null;
}

interface PlaygroundView {
  readonly input: PlaygroundInput;
  readonly choice: ModelChoice;
  readonly results: readonly RunResult[];
  readonly origin: string;
}

export function playgroundPage(context: ConsoleContext, { input, choice, results, origin }: PlaygroundView): PageContent {
  const chosen = {
    ...input,
    model: input.model || (choice.tiers.includes('standard') ? 'standard' : (choice.tiers[0] ?? choice.models[0] ?? '')),
  };
  const shown = results.length > 0 ? results : [{ model: '', text: '', end: null }];
  const content = html`${card(playgroundForm(context, chosen, choice))}
<div class="columns" id="results">${shown.map(resultCard)}</div>
<template id="result">${resultCard({ model: '', text: '', end: null })}</template>
${section('Code', html`<div id="code" class="stack">${codeBlocks(chosen, origin)}</div>`, {
  hint: 'The same call from an application. Put a virtual key into GATEWAY_KEY.',
})}`;
  return { kind: 'page', title: 'Playground', content, scripts: [script], styles: [styles] };
}

export function codeBlocks(input: PlaygroundInput, origin: string): Html {
  const block = (title: string, text: string, open: boolean) =>
    html`<details class="code-choice" name="code"${open ? html` open` : ''}><summary>${title}</summary>${codeBlock(text, title)}</details>`;
  return html`${block('curl', curlSnippet(input, origin), true)}${block('TypeScript', typescriptSnippet(input, origin), false)}${block(
    'Python',
    pythonSnippet(input, origin),
    false,
  )}`;
}

function playgroundForm(context: ConsoleContext, input: PlaygroundInput, choice: ModelChoice): Html {
  const path = projectPath(context, '/playground');
  const number = (value: number | null) => (value === null || Number.isNaN(value) ? null : value);
  return html`<form class="playground" id="playground" method="post" action="${path}" data-stream="${path}/stream"
hx-post="${path}/code" hx-trigger="input delay:300ms" hx-target="#code" hx-sync="this:replace">
${csrfField(context)}
<div class="playground-settings">
${selectField({ name: 'model', label: 'Model', required: true, value: input.model, options: options(choice, input.model) })}
${selectField({ name: 'other', label: 'Compare with', value: input.other, options: [{ value: '', label: 'Nothing' }, ...options(choice, input.other)] })}
${textField({ name: 'temperature', label: 'Temperature', type: 'number', min: 0, max: 2, step: 'any', value: number(input.temperature) })}
${textField({ name: 'max_tokens', label: 'Max tokens', type: 'number', min: 1, step: 1, value: number(input.maxTokens) })}
</div>
<div class="stack">
${textArea({ name: 'system', label: 'System prompt', rows: 3, value: input.system })}
${textArea({ name: 'prompt', label: 'Message', rows: 6, required: true, value: input.prompt })}
<div class="form-actions"><button class="button primary">Run</button><button class="button" type="button" id="stop" hidden>Stop</button></div>
</div></form>`;
}

/**
 * Returns the options of the model field. If the chosen name isn't in the list, e.g. because it comes from a link, we
 * add it.
 */
function options({ tiers, models }: ModelChoice, chosen: string): Option[] {
  const known = [
    ...tiers.map((name) => ({ value: name, label: name, group: 'Tiers' })),
    ...models.map((id) => ({ value: id, label: id, group: id.slice(0, id.indexOf('/')) })),
  ];
  return chosen === '' || known.some(({ value }) => value === chosen)
    ? known
    : [...known, { value: chosen, label: chosen, group: 'Others' }];
}

function resultCard({ model, text, end }: RunResult): Html {
  return html`<article class="card result"><h2 class="result-model">${model === '' ? 'Response' : model}</h2>
<div class="result-error">${end === null || end.error === null ? '' : notice(end.error, 'bad')}</div>
<p class="text result-text">${text === '' && end === null ? html`<span class="muted">The response appears here.</span>` : text}</p>
<div class="result-figures">${end === null ? '' : definitions(end.figures)}${end?.href ? html`<p><a href="${end.href}">Show the call</a></p>` : ''}</div></article>`;
}
