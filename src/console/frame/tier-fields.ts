/** Fields for tiers: a row per tier with its name and its chain of models, one a line. A row without a name is ignored. */
import type { Tiers } from '../../core/call.ts';
import type { FieldErrors } from './field-errors.ts';
import { textArea, textField } from './form.ts';
import { listOf } from './form-values.ts';
import { type Html, html } from './html.ts';

/** Empty rows for further tiers. */
const spareRows = 1;

export interface TierFieldsOptions {
  /** Prefix of the field names: the member of the settings. */
  readonly name: string;
  readonly legend: string;
  readonly form: URLSearchParams;
  readonly errors: FieldErrors;
  readonly hint?: Html | string;
}

export function tierFields({ name, legend, form, errors, hint }: TierFieldsOptions): Html {
  const error = errors.of(name);
  const rows = Array.from({ length: rowCount(form, name) + spareRows }, (_, row) => row);
  return html`<fieldset class="tiers"><legend>${legend}</legend>${hint === undefined ? '' : html`<p class="hint">${hint}</p>`}${
    error === undefined ? '' : html`<p class="error" role="alert">${error}</p>`
  }${rows.map(
    (row) =>
      html`<div class="field-row">${textField({
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
  )}</fieldset>`;
}

/** Fills the fields of tiers. */
export function setTiers(form: URLSearchParams, name: string, tiers: Tiers): void {
  for (const [row, [tier, models]] of Object.entries(tiers).entries()) {
    form.set(`${name}.${row}.name`, tier);
    form.set(`${name}.${row}.models`, models.join('\n'));
  }
}

export function readTiers(form: URLSearchParams, name: string): Tiers {
  const rows = Array.from({ length: rowCount(form, name) }, (_, row) => row);
  return Object.fromEntries(
    rows.flatMap((row) => {
      const tier = form.get(`${name}.${row}.name`)?.trim() ?? '';
      return tier === '' ? [] : [[tier, listOf(form, `${name}.${row}.models`)]];
    }),
  );
}

function rowCount(form: URLSearchParams, name: string): number {
  let rows = 0;
  while (form.has(`${name}.${rows}.name`)) rows += 1;
  return rows;
}
