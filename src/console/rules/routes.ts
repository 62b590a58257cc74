/** Lets people list, change and test the content rules of a project. */
import type { ContentRule } from '../../guardrails/content-rule.ts';
import type { ContentRules } from '../../projects/content-rules.ts';
import { badge, csvLink, table } from '../frame/components.ts';
import { html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, ConsoleRoute, CsvValue, PageContent } from '../frame/route.ts';
import { auditOf } from '../frame/settings-edit.ts';
import { classLabels, editOf, ruleForm } from './rule-form.ts';
import { ruleTest } from './rule-test.ts';

export interface RuleRoutesDeps {
  readonly contentRules: ContentRules;
}

export function createRuleRoutes({ contentRules }: RuleRoutesDeps): readonly ConsoleRoute[] {
  const showRules = async (context: ConsoleContext, tested: URLSearchParams | null): Promise<PageContent> => {
    const rules = await contentRules.find(context.project.id);
    const edit = context.role === 'owner' ? html`<a class="button primary" href="${projectPath(context, '/rules/edit')}">Edit</a>` : '';
    return {
      kind: 'page',
      title: 'Content rules',
      actions: html`${tested === null ? csvLink(context) : ''}${edit}`,
      content: html`${table<ContentRule>({
        caption: 'Rules',
        hideCaption: true,
        rows: rules,
        empty: 'Rules find personal data, credentials and your own expressions in prompts and responses, and block or observe them.',
        columns: [
          { label: 'Place', value: ({ place }) => (place === 'input' ? 'Input' : 'Output') },
          { label: 'Class', value: (rule) => classLabels[rule.class] },
          {
            label: 'Expression',
            value: ({ expression }) => (expression === undefined ? null : html`<code>${expression}</code>`),
            grow: true,
          },
          { label: 'Action', value: ({ action }) => badge(action, action === 'block' ? 'bad' : 'warning') },
        ],
      })}${rules.length === 0 ? '' : await ruleTest(context, rules, tested)}`,
    };
  };

  return [
    { method: 'get', path: '/rules', access: 'member', handle: (context) => showRules(context, null) },
    {
      method: 'get',
      path: '/rules.csv',
      access: 'member',
      async handle({ project }) {
        const rules = await contentRules.find(project.id);
        const rows = rules.map(({ place, class: ruleClass, action, expression = null }): CsvValue[] => [
          place,
          ruleClass,
          action,
          expression,
        ]);
        return { kind: 'csv', fileName: `rules-${project.slug}.csv`, header: ['place', 'class', 'action', 'expression'], rows };
      },
    },
    {
      method: 'post',
      path: '/rules/test',
      access: 'member',
      action: null,
      handle: async (context, form) => ({ kind: 'page', page: await showRules(context, form) }),
    },
    {
      method: 'get',
      path: '/rules/edit',
      access: 'owner',
      handle: async (context) => ruleForm(context, await contentRules.find(context.project.id)),
    },
    {
      method: 'post',
      path: '/rules/edit',
      access: 'owner',
      action: 'rules.change',
      async handle(context, form) {
        const edit = editOf(form);
        const to = projectPath(context, '/rules');
        if (!('rules' in edit.change)) return { kind: 'redirect', to, notice: 'Nothing was changed.' };
        await contentRules.put(context.project.id, { rules: edit.change.rules }, { rules: edit.read.rules });
        return {
          kind: 'redirect',
          to,
          notice: 'Saved. Calls that start from now on are checked with these rules.',
          audit: { changed: auditOf(edit) },
        };
      },
      invalidForm: async (context, form, errors) => ruleForm(context, await contentRules.find(context.project.id), { form, errors }),
    },
  ];
}
