/**
 * Renders and parses the fields for tiers. Each tier has a name and a field for each model of its chain, in order. Empty
 * fields are ignored. Buttons move, add and remove models and tiers: they send the form to `arrangePath`, which returns
 * the page with the changed form (arrange-tiers.ts). A script does the same for models without leaving the page.
 */
import type { Tiers } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { type Asset, defineAsset } from './assets.ts';
import type { FieldErrors } from './field-errors.ts';
import { splitList } from './form-values.ts';
import { type Html, html } from './html.ts';

export const tierScript: Asset = defineAsset(new URL('./tier-fields.js', import.meta.url));

/** A tier that applies unless the form defines a tier of the same name. */
export interface InheritedTier {
  readonly name: string;
  readonly models: readonly string[];
  /** Where the tier is defined, e.g. `configuration file`. */
  readonly origin: string;
}

export interface TierFieldsOptions {
  /** The prefix of the field names, which is also the name of the member in the settings. */
  readonly name: string;
  readonly legend: string;
  readonly form: URLSearchParams;
  readonly errors: FieldErrors;
  readonly hint?: Html | string;
  readonly arrangePath: string;
  /** The models that the person can choose from. Others can be typed. */
  readonly choices: readonly string[];
  readonly inherited: readonly InheritedTier[];
  /** Opens the section even if the form has no tier of this kind. */
  readonly isOpen?: boolean;
  /** Returns a mark for a model that can't be used or that the catalog doesn't have. */
  readonly mark: (model: string) => Html | '';
}

export function tierFields(options: TierFieldsOptions): Html {
  const { name, legend, form, errors, hint, arrangePath, choices, inherited } = options;
  const rows = formRows(form, name);
  const error = errors.at(name);
  const isOpen = options.isOpen || rows.length > 0 || errors.of(name) !== undefined;
  const names = rows.map(({ tier }) => tier);
  return html`<details${isOpen ? html` open` : ''} id="${name}"><summary>${legend}</summary><fieldset><legend class="hidden">${legend}</legend>${
    hint === undefined ? '' : html`<p class="hint">${hint}</p>`
  }${error === undefined ? '' : html`<p class="error" role="alert">${error}</p>`}
<datalist id="models-${name}">${choices.map((id) => html`<option value="${id}">`)}</datalist>
${rows.map((row, index) => tierBlock(options, row, index))}
<div><button class="button small" formaction="${arrangePath}#${name}.${rows.length}" formnovalidate name="arrange" value="add-tier:${name}">Add a tier<span class="hidden"> to ${legend.toLowerCase()}</span></button></div>
${inherited.length === 0 ? '' : inheritedTiers(options, names)}</fieldset></details>`;
}

/**
 * The form's first submit button, which browsers press when somebody presses Enter in a field. Otherwise that would be a
 * button of a tier.
 */
export const defaultButton: Html = html`<button class="hidden" tabindex="-1" aria-hidden="true">Save</button>`;

function tierBlock(options: TierFieldsOptions, { tier, models }: TierRow, row: number): Html {
  const { name, errors, arrangePath, mark } = options;
  const prefix = `${name}.${row}`;
  const label = tier === '' ? `tier ${row + 1}` : `tier ${tier}`;
  const target = `${arrangePath}#${prefix}`;
  const error = tier === '' ? undefined : errors.at(`${name}.${tier}`);
  const fields = models.at(-1) === '' ? models : [...models, ''];
  const entered = models.filter((model) => model !== '');
  const command = (kind: string, text: Html | string, about: string): Html =>
    html`<button class="button small plain" formaction="${target}" formnovalidate name="arrange" value="${kind}" data-arrange="${kind.split(':', 1)[0]}"><span aria-hidden="true">${text}</span><span class="hidden">${about}</span></button>`;
  const modelField = (model: string, index: number): Html => {
    const problem = model === '' ? undefined : errors.at(`${name}.${tier}.${entered.indexOf(model)}`);
    const id = `field-${prefix}.models.${index}`;
    return html`<li class="${problem === undefined ? 'tier-model' : 'tier-model invalid'}"><input class="code" id="${id}" name="${prefix}.models" list="models-${name}" value="${model}" placeholder="provider/model" autocomplete="off" spellcheck="false" aria-label="Model ${index + 1} of ${label}"${problem === undefined ? '' : html` aria-invalid="true" aria-describedby="${id}-error"`}>
<span class="tier-actions">${command(`up:${name}:${row}:${index}`, '↑', `Move model ${index + 1} of ${label} up`)}${command(`down:${name}:${row}:${index}`, '↓', `Move model ${index + 1} of ${label} down`)}${command(`remove:${name}:${row}:${index}`, '✕', `Remove model ${index + 1} of ${label}`)}</span>
${problem === undefined ? (model === '' ? '' : html`<span class="tier-mark">${mark(model)}</span>`) : html`<p class="error" id="${id}-error">${problem}</p>`}</li>`;
  };
  return html`<div class="tier" id="${prefix}"><div class="tier-head"><div class="field${error === undefined ? '' : ' invalid'}"><label for="field-${prefix}.name">Tier<span class="hidden"> ${row + 1}</span></label><input id="field-${prefix}.name" name="${prefix}.name" value="${tier}" placeholder="standard" autocomplete="off"${error === undefined ? '' : html` aria-invalid="true" aria-describedby="field-${prefix}.name-error"`}></div>
<button class="button small" formaction="${arrangePath}#${name}" formnovalidate name="arrange" value="remove-tier:${name}:${row}">Remove<span class="hidden"> ${label}</span></button></div>
${error === undefined ? '' : html`<p class="error" id="field-${prefix}.name-error">${error}</p>`}
<ol class="tier-models" aria-label="Models of ${label}, in the order in which they are tried">${fields.map(modelField)}</ol>
<div><button class="button small plain" formaction="${target}" formnovalidate name="arrange" value="add:${name}:${row}" data-arrange="add">Add a model<span class="hidden"> to ${label}</span></button></div></div>`;
}

function inheritedTiers({ name, arrangePath, inherited, mark }: TierFieldsOptions, own: readonly string[]): Html {
  return html`<div class="inherited"><p class="hint">Inherited tiers. To change one here, copy it and edit the copy, which then applies instead.</p>
<ul class="bare">${inherited.map(
    (tier) =>
      html`<li><p><code>${tier.name}</code> <span class="muted">${tier.origin}</span> ${
        own.includes(tier.name)
          ? html`<span class="badge">replaced above</span>`
          : html`<button class="button small" formaction="${arrangePath}#${name}.${own.length}" formnovalidate name="arrange" value="copy:${name}:${tier.name}">Copy<span class="hidden"> tier ${tier.name}</span></button>`
      }</p><ol class="chain">${tier.models.map((model) => html`<li><code>${model}</code> ${mark(model)}</li>`)}</ol></li>`,
  )}</ul></div>`;
}

/** A tier as it was entered. Its models may be empty texts. */
export interface TierRow {
  readonly tier: string;
  readonly models: readonly string[];
}

/** Returns the tiers of a form, including those that aren't filled in. */
export function formRows(form: URLSearchParams, name: string): TierRow[] {
  const rows: TierRow[] = [];
  for (let row = 0; form.has(`${name}.${row}.name`); row += 1) {
    const models = form.getAll(`${name}.${row}.models`).flatMap((text) => (text.trim() === '' ? [''] : splitList(text)));
    rows.push({ tier: form.get(`${name}.${row}.name`)?.trim() ?? '', models });
  }
  return rows;
}

/** Replaces the tiers of a form. */
export function setRows(form: URLSearchParams, name: string, rows: readonly TierRow[]): void {
  for (const field of new Set(form.keys())) if (field.startsWith(`${name}.`)) form.delete(field);
  for (const [row, { tier, models }] of rows.entries()) {
    form.set(`${name}.${row}.name`, tier);
    for (const model of models) form.append(`${name}.${row}.models`, model);
  }
}

export function setTiers(form: URLSearchParams, name: string, tiers: Tiers): void {
  setRows(
    form,
    name,
    Object.entries(tiers).map(([tier, models]) => ({ tier, models })),
  );
}

/** If several tiers have the same name, the first one is returned. `assertDistinctTiers` rejects such a form. */
export function readTiers(form: URLSearchParams, name: string): Tiers {
  return Object.fromEntries(filledRows(form, name).toReversed());
}

/** Throws `bad_request` if two rows have the same name, or if a row has models but no name. */
export function assertDistinctTiers(form: URLSearchParams, name: string): void {
  const names = filledRows(form, name).map(([tier]) => tier);
  if (names.includes('')) throw gatewayError('bad_request', { issues: [{ path: name, message: 'enter a tier name for these models' }] });
  const repeated = names.find((tier, index) => names.indexOf(tier) < index);
  if (repeated !== undefined)
    throw gatewayError('bad_request', { issues: [{ path: name, message: `there are two tiers named ${repeated}` }] });
}

/** Skips empty rows, but keeps rows without a name so that `assertDistinctTiers` rejects them. */
function filledRows(form: URLSearchParams, name: string): (readonly [tier: string, models: readonly string[]])[] {
  return formRows(form, name).flatMap(({ tier, models }) => {
    const entered = models.filter((model) => model !== '');
    return tier === '' && entered.length === 0 ? [] : [[tier, entered] as const];
  });
}
