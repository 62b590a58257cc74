/** Renders and parses the form of a project's content rules, which has one row per rule. We ignore empty rows. */
import { type ContentRule, ruleClasses } from '../../guardrails/content-rule.ts';
import { type Option, form as renderForm, selectField, textField } from '../frame/components.ts';
import { type FieldErrors, noErrors } from '../frame/field-errors.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import { compareSettings, parseSettingsField, rebaseSettings, type SettingsEdit, settingsField } from '../frame/settings-edit.ts';

/** The class of a spare row. It can't be an empty string, because browsers wouldn't submit the form then. */
const unset = 'none';
const removed = 'remove';
/** The number of empty rows for new rules. */
const spareRows = 2;

export const classLabels: Readonly<Record<ContentRule['class'], string>> = {
  credential: 'Credential',
  card_number: 'Card number',
  email: 'E-mail address',
  phone: 'Phone number',
  iban: 'IBAN',
  expression: 'Expression',
};

export const placeOptions: readonly Option[] = [
  { value: 'input', label: 'Input' },
  { value: 'output', label: 'Output' },
];
const actionOptions: readonly Option[] = [
  { value: 'block', label: 'Block' },
  { value: 'observe', label: 'Observe' },
];

export function ruleForm(
  context: ConsoleContext,
  rules: readonly ContentRule[],
  rejected?: { readonly form: URLSearchParams; readonly errors: FieldErrors },
): PageContent {
  const rebased = rebaseSettings(rejected?.form, editOf, { rules });
  const form = rejected?.form ?? toForm(rules);
  const errors = rejected?.errors ?? noErrors;
  const path = projectPath(context, '/rules');
  // The store numbers only the rules that it received, so we don't count rows that were cleared.
  let sent = 0;
  const rows = Array.from({ length: rowCount(form) + spareRows }, (_, row) => {
    const isSent = isRule(form, row);
    const error = isSent ? errors.of(`rules.${sent}`) : undefined;
    if (isSent) sent += 1;
    return ruleRow(form, row, error);
  });
  return {
    kind: 'page',
    title: 'Edit content rules',
    breadcrumbs: [{ label: 'Content rules', href: path }],
    content: html`${rebased.notice}<p class="lead">A rule that blocks refuses the call with 403, or withholds the response. A rule that observes writes a log line without the text.
An expression is in the syntax of RE2 and is only for the class <em>Expression</em>.</p>${renderForm({ context, action: `${path}/edit`, submit: 'Save', cancelHref: path, fields: [settingsField(rebased.read), ...rows] })}`,
  };
}

function ruleRow(form: URLSearchParams, row: number, error: string | undefined): Html {
  const name = (member: string): string => `rules.${row}.${member}`;
  const select = (member: string, label: string, options: readonly (Option | string)[]): Html =>
    selectField({ name: name(member), label, value: form.get(name(member)), required: true, options });
  const isSpare = (form.get(name('class')) ?? unset) === unset;
  const none = isSpare ? { value: unset, label: 'None' } : { value: removed, label: 'Remove' };
  const classes = ruleClasses.map((value) => ({ value, label: classLabels[value] }));
  return html`<fieldset class="rule-row"><legend class="hidden">Rule ${row + 1}</legend><div class="field-row">${select('class', 'Class', [none, ...classes])}${select(
    'place',
    'Place',
    placeOptions,
  )}${select('action', 'Action', actionOptions)}</div>${textField({
    name: name('expression'),
    label: 'Expression',
    value: form.get(name('expression')),
    error,
    maxLength: 500,
    autocomplete: 'off',
  })}</fieldset>`;
}

export function editOf(form: URLSearchParams): SettingsEdit {
  return compareSettings(parseSettingsField(form), { rules: readRules(form) });
}

function toForm(rules: readonly ContentRule[]): URLSearchParams {
  const form = new URLSearchParams();
  for (const [row, rule] of rules.entries()) for (const [member, value] of Object.entries(rule)) form.set(`rules.${row}.${member}`, value);
  return form;
}

function readRules(form: URLSearchParams): Readonly<Record<string, string>>[] {
  return Array.from({ length: rowCount(form) }, (_, row) => row).flatMap((row) => {
    const value = (member: string): string => form.get(`rules.${row}.${member}`) ?? '';
    if (!isRule(form, row)) return [];
    // Don't trim this, because a space is part of an expression.
    const expression = value('expression');
    return [
      {
        class: value('class') === unset ? '' : value('class'),
        place: value('place'),
        action: value('action'),
        ...(expression !== '' && { expression }),
      },
    ];
  });
}

/**
 * Reports whether the row is neither empty nor removed. If a row has an expression but no class, we send it so that the
 * store rejects it.
 */
function isRule(form: URLSearchParams, row: number): boolean {
  const ruleClass = form.get(`rules.${row}.class`) ?? unset;
  return ruleClass !== removed && (ruleClass !== unset || (form.get(`rules.${row}.expression`) ?? '') !== '');
}

function rowCount(form: URLSearchParams): number {
  let rows = 0;
  while (form.has(`rules.${rows}.class`)) rows += 1;
  return rows;
}
