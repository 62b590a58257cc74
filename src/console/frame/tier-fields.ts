/**
 * Renders and parses the fields for tiers. Each tier has a row with its name and its chain of models, one model per
 * line. Empty rows are ignored.
 */
import type { Tiers } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import type { FieldErrors } from './field-errors.ts';
import { textArea, textField } from './form.ts';
import { listOf } from './form-values.ts';
import { type Html, html } from './html.ts';

/** The number of empty rows for new tiers. */
const spareRows = 1;

export interface TierFieldsOptions {
  /** The prefix of the field names, which is also the name of the member in the settings. */
  readonly name: string;
  readonly legend: string;
  readonly form: URLSearchParams;
  readonly errors: FieldErrors;
  readonly hint?: Html | string;
}

export function tierFields({ name, legend, form, errors, hint }: TierFieldsOptions): Html {
  const error = errors.of(name);
  const rows = Array.from({ length: rowCount(form, name) + spareRows }, (_, row) => row);
  const isOpen = error !== undefined || Object.keys(readTiers(form, name)).length > 0;
  const fields = html`${hint === undefined ? '' : html`<p class="hint">${hint}</p>`}${
    error === undefined ? '' : html`<p class="error" role="alert">${error}</p>`
  }${rows.map(
    (row) =>
      html`<div class="field-row tier-row">${textField({
        name: `${name}.${row}.name`,
        label: html`Tier<span class="hidden"> ${row + 1}</span>`,
        value: form.get(`${name}.${row}.name`),
        placeholder: 'standard',
        autocomplete: 'off',
      })}${textArea({
        name: `${name}.${row}.models`,
        label: html`Models<span class="hidden"> of tier ${row + 1}</span>, in order`,
        value: form.get(`${name}.${row}.models`) ?? '',
        rows: 3,
        placeholder: 'provider/model',
        code: true,
      })}</div>`,
  )}`;
  return html`<details${isOpen ? html` open` : ''}><summary>${legend}</summary><fieldset><legend class="hidden">${legend}</legend>${fields}</fieldset></details>`;
}

export function setTiers(form: URLSearchParams, name: string, tiers: Tiers): void {
  for (const [row, [tier, models]] of Object.entries(tiers).entries()) {
    form.set(`${name}.${row}.name`, tier);
    form.set(`${name}.${row}.models`, models.join('\n'));
  }
}

/** If several tiers have the same name, the first one is returned. `assertDistinctTiers` rejects such a form. */
export function readTiers(form: URLSearchParams, name: string): Tiers {
  return Object.fromEntries(rowsOf(form, name).toReversed());
}

/** Throws `bad_request` if two rows have the same name, or if a row has models but no name. */
export function assertDistinctTiers(form: URLSearchParams, name: string): void {
  const names = rowsOf(form, name).map(([tier]) => tier);
  if (names.includes('')) throw gatewayError('bad_request', { issues: [{ path: name, message: 'enter a tier name for these models' }] });
  const repeated = names.find((tier, index) => names.indexOf(tier) < index);
  if (repeated !== undefined)
    throw gatewayError('bad_request', { issues: [{ path: name, message: `there are two tiers named ${repeated}` }] });
}

/** Skips empty rows, but keeps rows without a name so that `assertDistinctTiers` rejects them. */
function rowsOf(form: URLSearchParams, name: string): (readonly [tier: string, models: readonly string[]])[] {
  return Array.from({ length: rowCount(form, name) }, (_, row) => row).flatMap((row) => {
    const tier = form.get(`${name}.${row}.name`)?.trim() ?? '';
    const models = listOf(form, `${name}.${row}.models`);
    return tier === '' && models.length === 0 ? [] : [[tier, models] as const];
  });
}

function rowCount(form: URLSearchParams, name: string): number {
  let rows = 0;
  while (form.has(`${name}.${rows}.name`)) rows += 1;
  return rows;
}
