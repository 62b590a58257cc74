import { type ContentRule, ruleClasses, ruleIdOf } from '../../guardrails/content-rule.ts';
import { fillFields, type Option, form as renderForm, selectField, textField } from '../frame/components.ts';
import { noErrors, type SubmittedForm } from '../frame/field-errors.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import {
  compareSettings,
  parseSettingsField,
  rebaseSettings,
  type Settings,
  type SettingsEdit,
  settingsField,
} from '../frame/settings-edit.ts';

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
  { value: 'observe', label: 'Observe' },
  { value: 'block', label: 'Block' },
];

interface RuleFormOptions extends SubmittedForm {
  /** The path to which the form is posted, relative to the project. */
  readonly action: string;
  /**
   * Only set if the form edits an existing rule. `read` is the version of the rule that the submitted form will be
   * compared with, and `notice` shows what somebody else has changed in the meantime.
   */
  readonly edited?: { readonly read: Settings; readonly notice: Html | '' };
}

export function ruleForm(context: ConsoleContext, { action, form, errors, edited }: RuleFormOptions): PageContent {
  const filled = fillFields(form, errors);
  const path = projectPath(context, '/rules');
  const classes = ruleClasses.map((value) => ({ value, label: classLabels[value] }));
  return {
    kind: 'page',
    title: edited ? 'Edit a content rule' : 'New content rule',
    breadcrumbs: [{ label: 'Content rules', href: path }],
    content: html`${edited?.notice ?? ''}<p class="lead">A rule that blocks refuses the call with 403, or withholds the response. A rule that observes only counts its hits and writes a log line without the text, so you can try it out first.</p>${renderForm(
      {
        context,
        action: projectPath(context, action),
        submit: edited ? 'Save' : 'Add rule',
        cancelHref: path,
        fields: [
          edited ? settingsField(edited.read) : html``,
          selectField({ ...filled('class'), label: 'Looks for', required: true, options: classes }),
          textField({
            ...filled('expression'),
            label: 'Expression',
            hint: html`Only if the rule looks for an expression, in the <a href="https://github.com/google/re2/wiki/Syntax" rel="noreferrer">syntax of RE2</a>.`,
            maxLength: 500,
            autocomplete: 'off',
          }),
          selectField({ ...filled('place'), label: 'In', required: true, options: placeOptions }),
          selectField({ ...filled('action'), label: 'Action', required: true, options: actionOptions }),
        ],
      },
    )}`,
  };
}

export function readRule(form: URLSearchParams): Readonly<Record<string, string>> {
  // Don't trim, because spaces at the start and end are part of the expression.
  const expression = form.get('expression') ?? '';
  return {
    class: form.get('class') ?? '',
    place: form.get('place') ?? '',
    action: form.get('action') ?? '',
    ...(expression !== '' && { expression }),
  };
}

export function editRuleForm(context: ConsoleContext, rule: ContentRule, rejected?: SubmittedForm): PageContent {
  return ruleForm(context, {
    action: `/rules/${ruleIdOf(rule)}/edit`,
    ...(rejected ?? { form: new URLSearchParams({ ...rule }), errors: noErrors }),
    edited: rebaseSettings(rejected?.form, readRuleEdit, { expression: null, ...rule }),
  });
}

export function readRuleEdit(form: URLSearchParams): SettingsEdit {
  return compareSettings(parseSettingsField(form), { expression: null, ...readRule(form) });
}

export function ruleLabel({ class: ruleClass, expression }: ContentRule): Html {
  return html`${classLabels[ruleClass]}${expression === undefined ? '' : html` <code>${expression}</code>`}`;
}

export function describeRule({ class: ruleClass, place, expression }: ContentRule): string {
  const what = expression === undefined ? classLabels[ruleClass] : `${classLabels[ruleClass]} ${expression}`;
  return `${what} in the ${place}`;
}
