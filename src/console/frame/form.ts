/** Renders forms and their fields. Every form that changes something includes the CSRF token. */
import { gatewayError } from '../../core/errors.ts';
import type { FieldErrors } from './field-errors.ts';
import { type Html, html } from './html.ts';
import type { ConsoleContext } from './route.ts';

interface FormOptions {
  readonly context: Pick<ConsoleContext, 'csrfToken'>;
  readonly action: string;
  readonly fields?: readonly Html[];
  readonly submit: string;
  readonly danger?: boolean;
  readonly cancelHref?: string;
  readonly label?: string;
}

export function form({ context, action, fields = [], submit, danger = false, cancelHref, label }: FormOptions): Html {
  return html`<form class="form" method="post" action="${action}"${label === undefined ? '' : html` aria-label="${label}"`}>
${csrfField(context)}${fields}
<div class="form-actions"><button class="${danger ? 'button danger' : 'button primary'}">${submit}</button>${
    cancelHref === undefined ? '' : html`<a class="button" href="${cancelHref}">Cancel</a>`
  }</div>
</form>`;
}

/** Renders the hidden field with the CSRF token, for forms that don't use `form`. */
export function csrfField(context: Pick<ConsoleContext, 'csrfToken'>): Html {
  return html`<input type="hidden" name="csrf" value="${context.csrfToken}">`;
}

interface ActionButtonOptions {
  readonly context: Pick<ConsoleContext, 'csrfToken'>;
  readonly action: string;
  readonly label: string;
  readonly values?: Readonly<Record<string, string>>;
  readonly danger?: boolean;
  /** Text for screen readers after the label, e.g. `key production` after `Revoke`. */
  readonly about?: string;
}

/** Renders a form that only consists of a button, e.g. in a table. */
export function actionButton({ context, action, label, values = {}, danger = false, about }: ActionButtonOptions): Html {
  const hidden = Object.entries(values).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`);
  return html`<form class="inline" method="post" action="${action}">${csrfField(context)}${hidden}<button class="button small${
    danger ? ' danger' : ''
  }">${label}${about === undefined ? '' : html`<span class="hidden"> ${about}</span>`}</button></form>`;
}

interface ConfirmationOptions extends FormOptions {
  readonly confirmation: string;
  readonly text: Html | string;
}

/**
 * Renders a form for an action that can't be undone. The person has to type `confirmation`, which the action checks
 * with `requireConfirmation`.
 */
export function confirmationForm({ confirmation, text, fields = [], ...options }: ConfirmationOptions): Html {
  const typed = textField({
    name: 'confirmation',
    label: html`Type <code>${confirmation}</code> to confirm`,
    required: true,
    autocomplete: 'off',
  });
  return html`<div class="danger-zone"><p>${text}</p>${form({ ...options, danger: true, fields: [...fields, typed] })}</div>`;
}

/** Throws `bad_request` if the person didn't type the text that the form asked for. */
export function requireConfirmation(fields: URLSearchParams, confirmation: string): void {
  if (fields.get('confirmation')?.trim() === confirmation) return;
  throw gatewayError('bad_request', { message: `type ${confirmation} to confirm` });
}

/** Returns a function that looks up the name, value and error of a field. */
export function fillFields(form: URLSearchParams, errors: FieldErrors) {
  return (name: string) => ({ name, value: form.get(name), error: errors.of(name) });
}

interface FieldBase {
  readonly name: string;
  readonly label: Html | string;
  readonly hint?: Html | string;
  readonly error?: string | undefined;
  readonly required?: boolean;
}

interface TextFieldOptions extends FieldBase {
  readonly value?: string | number | null | undefined;
  readonly type?: 'text' | 'email' | 'password' | 'number' | 'search' | 'date' | 'datetime-local' | 'url';
  readonly placeholder?: string;
  readonly autocomplete?: string;
  readonly min?: number | string;
  readonly max?: number | string;
  /** Use `any` to allow decimals in a number field. */
  readonly step?: number | 'any';
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly suggestions?: readonly string[];
  /** The unit to show after an input field, e.g. `USD` or `days`. */
  readonly unit?: string;
  readonly autofocus?: boolean;
}

export function textField(options: TextFieldOptions): Html {
  const { name, value, type = 'text', suggestions, unit, autofocus } = options;
  const { placeholder, autocomplete, min, max, step, maxLength: maxlength, pattern } = options;
  const id = idOf(name);
  const list = suggestions && html`<datalist id="${id}-list">${suggestions.map((text) => html`<option value="${text}">`)}</datalist>`;
  const attributes = optionalAttributes({
    ...{ value, placeholder, autocomplete, min, max, step, maxlength, pattern },
    list: suggestions && `${id}-list`,
  });
  const input = html`<input id="${id}" name="${name}" type="${type}"${attributes}${states(options)}${autofocus ? html` autofocus` : ''}>${list}`;
  return field(options, unit === undefined ? input : html`<span class="with-unit">${input}<span class="unit">${unit}</span></span>`);
}

export function textArea(
  options: FieldBase & {
    readonly value?: string | null;
    readonly rows?: number;
    readonly maxLength?: number;
    readonly placeholder?: string;
    readonly code?: boolean;
  },
): Html {
  const { name, value, rows = 4, maxLength, placeholder, code } = options;
  const attributes = optionalAttributes({ rows, maxlength: maxLength, placeholder });
  // Browsers drop a line feed directly after `<textarea>`, so add one for them to drop.
  return field(
    options,
    html`<textarea id="${idOf(name)}" name="${name}"${code ? html` class="code" spellcheck="false"` : ''}${attributes}${states(options)}>
${value}</textarea>`,
  );
}

export interface Option {
  readonly value: string;
  readonly label: string;
  readonly group?: string;
}

export type SelectOptions = readonly (Option | string)[];

/**
 * Returns the options of a select from their labels by value. The values must not be integers, because JavaScript moves
 * keys like `10` to the front of an object.
 */
export function toOptions(labels: Readonly<Record<string, string>>): Option[] {
  return Object.entries(labels).map(([value, label]) => ({ value, label }));
}

export const anyOption: Option = { value: '', label: 'Any' };

/** Adds the chosen value to the options of a select if it isn't one of them, because it may come from a link. */
export function withChosen(options: SelectOptions, chosen: string | null | undefined, group?: string): SelectOptions {
  if (!chosen || options.some((option) => option === chosen || (typeof option === 'object' && option.value === chosen))) return options;
  return [...options, { value: chosen, label: chosen, ...(group !== undefined && { group }) }];
}

export function selectField(options: FieldBase & { readonly value?: string | null | undefined; readonly options: SelectOptions }): Html {
  const { name, value } = options;
  const list = options.options.map((option) => (typeof option === 'string' ? { value: option, label: option } : option));
  const groups = Map.groupBy(list, ({ group }: Option) => group ?? '');
  const render = (items: readonly Option[]) =>
    items.map((item) => html`<option value="${item.value}"${item.value === (value ?? '') ? html` selected` : ''}>${item.label}</option>`);
  const content = [...groups].map(([group, items]) =>
    group === '' ? render(items) : html`<optgroup label="${group}">${render(items)}</optgroup>`,
  );
  return field(options, html`<select id="${idOf(name)}" name="${name}"${states(options)}>${content}</select>`);
}

export function checkboxField(options: FieldBase & { readonly checked?: boolean; readonly value?: string }): Html {
  const { name, label, hint, error, checked = false, value = 'on' } = options;
  const id = value === 'on' ? idOf(name) : `${idOf(name)}-${value}`;
  return html`<div class="field checkbox"><input type="checkbox" id="${id}" name="${name}" value="${value}"${checked ? html` checked` : ''}${states(options)}>
<label for="${id}">${label}</label>${notes(name, hint, error)}</div>`;
}

/**
 * If all of the fields have the same name, e.g. because they're the checkboxes of a list, pass it in `shared`, together
 * with the error.
 */
export function fieldset(
  legend: string,
  fields: readonly Html[],
  hint?: Html | string,
  shared?: { readonly name: string; readonly error: string | undefined },
): Html {
  const { name, error } = shared ?? {};
  return html`<fieldset><legend${name === undefined ? '' : html` data-field="${name}"`}>${legend}</legend>${hint === undefined ? '' : html`<p class="hint">${hint}</p>`}${
    error === undefined ? '' : html`<p class="error" role="alert">${error}</p>`
  }${fields}</fieldset>`;
}

function field({ name, label, hint, error, required }: FieldBase, input: Html): Html {
  return html`<div class="field${error === undefined ? '' : ' invalid'}"><label for="${idOf(name)}">${label}${
    required ? '' : html` <span class="optional">optional</span>`
  }</label>${input}${notes(name, hint, error)}</div>`;
}

function notes(name: string, hint: Html | string | undefined, error: string | undefined): Html {
  const id = idOf(name);
  return html`${hint === undefined ? '' : html`<p class="hint" id="${id}-hint">${hint}</p>`}${
    error === undefined ? '' : html`<p class="error" id="${id}-error">${error}</p>`
  }`;
}

function states({ name, hint, error, required }: FieldBase): Html {
  const id = idOf(name);
  const described = [hint === undefined ? '' : `${id}-hint`, error === undefined ? '' : `${id}-error`].filter((part) => part !== '');
  return html`${required ? html` required` : ''}${error === undefined ? '' : html` aria-invalid="true"`}${
    described.length === 0 ? '' : html` aria-describedby="${described.join(' ')}"`
  }`;
}

function optionalAttributes(values: Readonly<Record<string, string | number | null | undefined>>): readonly (Html | '')[] {
  return Object.entries(values).map(([name, value]) => (value === null || value === undefined ? '' : html` ${name}="${value}"`));
}

function idOf(name: string): string {
  return `field-${name}`;
}
