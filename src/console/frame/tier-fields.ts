/**
 * Renders and parses the fields for tiers. A tier has a name and a field for each model of its chain. Empty fields are
 * ignored. Buttons move, add and remove models and tiers by sending the form to `arrangePath`, which returns the page
 * with the changed form (arrange-tiers.ts). For models, a script does this without reloading the page.
 */
import type { Tiers } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { type TierKind, type TierSets, tierKinds } from '../../projects/tiers.ts';
import type { Catalog } from '../../routing/catalog.ts';
import { configuredTiers, listUsableModels, type ModelScope } from '../../routing/check-models.ts';
import { type Asset, defineAsset } from './assets.ts';
import type { FieldErrors } from './field-errors.ts';
import { splitList } from './form-values.ts';
import { type Html, html } from './html.ts';
import { markModel } from './tier-checks.ts';

export const tierScript: Asset = defineAsset(new URL('./tier-fields.js', import.meta.url));

/**
 * A tier that's defined elsewhere, e.g. in the configuration file. If the form contains a tier with the same name, that
 * one is used instead.
 */
export interface InheritedTier {
  readonly name: string;
  readonly models: readonly string[];
  readonly origin: string;
}

export interface TierFieldsOptions {
  readonly form: URLSearchParams;
  readonly errors: FieldErrors;
  readonly hint: string;
  readonly arrangePath: string;
  readonly scope: ModelScope;
  readonly inherited: (kind: TierKind) => readonly InheritedTier[];
  /**
   * True to expand sections that have inherited tiers but none in the form. Sections with tiers in the form are always
   * expanded.
   */
  readonly showsInherited?: boolean;
}

const legends: Readonly<Record<TierKind, string>> = {
  tiers: 'Tiers for text',
  image_tiers: 'Tiers for images',
  speech_tiers: 'Tiers for speech',
  transcription_tiers: 'Tiers for transcription',
};

/** The maximum number of suggested models, to keep the page small. People can type any other name. */
const maxChoices = 300;

/** Renders a section for each kind of tier. The kind is also the prefix of the field names. */
export function tierFields(options: TierFieldsOptions): readonly Html[] {
  return tierKinds.map((kind) => tierSection(options, kind));
}

function tierSection(options: TierFieldsOptions, name: TierKind): Html {
  const { form, errors, hint, arrangePath, scope, showsInherited = false } = options;
  const legend = legends[name];
  const inherited = options.inherited(name);
  const choices = listUsableModels(scope, name).slice(0, maxChoices);
  const rows = formRows(form, name);
  const error = errors.at(name);
  const isOpen = (showsInherited && inherited.length > 0) || rows.length > 0 || errors.of(name) !== undefined;
  const names = rows.map(({ tier }) => tier);
  return html`<details${isOpen ? html` open` : ''} id="${name}"><summary data-field="${name}">${legend}</summary><fieldset><legend class="hidden">${legend}</legend><p class="hint">${hint}</p>${
    error === undefined ? '' : html`<p class="error" role="alert">${error}</p>`
  }
<datalist id="models-${name}">${choices.map((id) => html`<option value="${id}">`)}</datalist>
${rows.map((row, index) => tierBlock(options, name, row, index))}
<div><button class="button small" formaction="${arrangePath}#${name}.${rows.length}" formnovalidate name="arrange" value="add-tier:${name}">Add a tier<span class="hidden"> to ${legend.toLowerCase()}</span></button></div>
${inherited.length === 0 ? '' : inheritedSection(options, name, names)}</fieldset></details>`;
}

/**
 * Pressing Enter in a field presses the first submit button of the form. This hidden button makes sure that it isn't
 * one that rearranges the tiers.
 */
export const defaultButton: Html = html`<button class="hidden" tabindex="-1" aria-hidden="true">Save</button>`;

function tierBlock({ errors, arrangePath, scope }: TierFieldsOptions, name: TierKind, { tier, models }: TierRow, row: number): Html {
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
${problem === undefined ? (model === '' ? '' : html`<span class="tier-mark">${markModel(scope, name, model)}</span>`) : html`<p class="error" id="${id}-error">${problem}</p>`}</li>`;
  };
  return html`<div class="tier" id="${prefix}"><div class="tier-head"><div class="field${error === undefined ? '' : ' invalid'}"><label for="field-${prefix}.name">Tier<span class="hidden"> ${row + 1}</span></label><input id="field-${prefix}.name" name="${prefix}.name" value="${tier}" placeholder="standard" autocomplete="off"${error === undefined ? '' : html` aria-invalid="true" aria-describedby="field-${prefix}.name-error"`}></div>
<button class="button small" formaction="${arrangePath}#${name}" formnovalidate name="arrange" value="remove-tier:${name}:${row}">Remove<span class="hidden"> ${label}</span></button></div>
${error === undefined ? '' : html`<p class="error" id="field-${prefix}.name-error">${error}</p>`}
<ol class="tier-models" aria-label="Models of ${label}, in the order in which they are tried">${fields.map(modelField)}</ol>
<div><button class="button small plain" formaction="${target}" formnovalidate name="arrange" value="add:${name}:${row}" data-arrange="add">Add a model<span class="hidden"> to ${label}</span></button></div></div>`;
}

/**
 * Returns the tiers that the form's tiers can override: those of the configuration file and, if the form belongs to an
 * application, those of the project.
 */
export function inheritedTiers(catalog: Catalog, kind: TierKind, ofProject: Tiers = {}): InheritedTier[] {
  return Object.entries({ ...configuredTiers(catalog)[kind], ...ofProject }).map(([name, models]) => ({
    name,
    models,
    origin: Object.hasOwn(ofProject, name) ? 'of the project' : 'in the configuration file',
  }));
}

function inheritedSection({ arrangePath, inherited, scope }: TierFieldsOptions, name: TierKind, own: readonly string[]): Html {
  return html`<div class="inherited"><p class="hint">Inherited tiers. To change one here, copy it and edit the copy, which then applies instead.</p>
<ul class="bare">${inherited(name).map(
    (tier) =>
      html`<li><p><code>${tier.name}</code> <span class="muted">${tier.origin}</span> ${
        own.includes(tier.name)
          ? html`<span class="badge">replaced above</span>`
          : html`<button class="button small" formaction="${arrangePath}#${name}.${own.length}" formnovalidate name="arrange" value="copy:${name}:${tier.name}">Copy<span class="hidden"> tier ${tier.name}</span></button>`
      }</p><ol class="chain">${tier.models.map((model) => html`<li><code>${model}</code> ${markModel(scope, name, model)}</li>`)}</ol></li>`,
  )}</ul></div>`;
}

/** A tier as somebody has entered it. `models` includes fields that were left empty. */
export interface TierRow {
  readonly tier: string;
  readonly models: readonly string[];
}

export function formRows(form: URLSearchParams, name: string): TierRow[] {
  const rows: TierRow[] = [];
  for (let row = 0; form.has(`${name}.${row}.name`); row += 1) {
    const models = form.getAll(`${name}.${row}.models`).flatMap((text) => (text.trim() === '' ? [''] : splitList(text)));
    rows.push({ tier: form.get(`${name}.${row}.name`)?.trim() ?? '', models });
  }
  return rows;
}

export function setRows(form: URLSearchParams, name: string, rows: readonly TierRow[]): void {
  for (const field of new Set(form.keys())) if (field.startsWith(`${name}.`)) form.delete(field);
  for (const [row, { tier, models }] of rows.entries()) {
    form.set(`${name}.${row}.name`, tier);
    for (const model of models) form.append(`${name}.${row}.models`, model);
  }
}

export function setTiers(form: URLSearchParams, sets: TierSets): void {
  for (const kind of tierKinds) {
    const rows = Object.entries(sets[kind]).map(([tier, models]) => ({ tier, models }));
    setRows(form, kind, rows);
  }
}

/**
 * If two tiers of the same kind have the same name, the first one wins. Call `assertDistinctTiers` to reject such
 * forms.
 */
export function readTiers(form: URLSearchParams): TierSets {
  const read = (kind: TierKind): Tiers => Object.fromEntries(filledRows(form, kind).toReversed());
  return {
    tiers: read('tiers'),
    image_tiers: read('image_tiers'),
    speech_tiers: read('speech_tiers'),
    transcription_tiers: read('transcription_tiers'),
  };
}

/** Throws `bad_request` if two tiers of a kind have the same name, or if a tier with models has no name. */
export function assertDistinctTiers(form: URLSearchParams): void {
  for (const kind of tierKinds) {
    const names = filledRows(form, kind).map(([tier]) => tier);
    if (names.includes('')) throw gatewayError('bad_request', { issues: [{ path: kind, message: 'enter a tier name for these models' }] });
    const repeated = names.find((tier, index) => names.indexOf(tier) < index);
    if (repeated !== undefined)
      throw gatewayError('bad_request', { issues: [{ path: kind, message: `there are two tiers named ${repeated}` }] });
  }
}

/**
 * Drops tiers that are completely empty. A tier with models but without a name is kept, so that `assertDistinctTiers`
 * can reject it.
 */
function filledRows(form: URLSearchParams, name: string): (readonly [tier: string, models: readonly string[]])[] {
  return formRows(form, name).flatMap(({ tier, models }) => {
    const entered = models.filter((model) => model !== '');
    return tier === '' && entered.length === 0 ? [] : [[tier, entered] as const];
  });
}
