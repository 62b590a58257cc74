/**
 * Lists, adds, changes, removes and tests the content rules of a project, and shows how often each rule has matched.
 */
import { gatewayError } from '../../core/errors.ts';
import { type ContentRule, ruleIdOf } from '../../guardrails/content-rule.ts';
import type { ContentRules } from '../../projects/content-rules.ts';
import { ruleHitsDays } from '../../projects/rule-hits.ts';
import { actionButton, badge, type Column, csvLink, emptyState, formatCount, table } from '../frame/components.ts';
import { noErrors } from '../frame/field-errors.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import { type ConsoleContext, type ConsoleRoute, type CsvValue, get, type PageContent, post } from '../frame/route.ts';
import { describeRule, editRuleForm, readRule, readRuleEdit, ruleForm, ruleLabel } from './rule-form.ts';
import { type RuleHitsPageDeps, ruleHitsPage } from './rule-hits-page.ts';
import { ruleTest } from './rule-test.ts';

export interface RuleRoutesDeps extends RuleHitsPageDeps {
  readonly contentRules: ContentRules;
}

const saved = 'Calls that start from now on are checked with these rules.';

export function createRuleRoutes(deps: RuleRoutesDeps): readonly ConsoleRoute[] {
  const { contentRules, ruleHits } = deps;
  const showRules = async (context: ConsoleContext, tested: URLSearchParams | null): Promise<PageContent> => {
    const [rules, uses] = await Promise.all([contentRules.find(context.project.id), ruleHits.count(context.project.id)]);
    const isOwner = context.role === 'owner';
    const add = isOwner ? html`<a class="button primary" href="${projectPath(context, '/rules/new')}">Add rule</a>` : undefined;
    return {
      kind: 'page',
      title: 'Content rules',
      actions: html`${tested === null ? csvLink(context) : ''}${add}`,
      content: html`${
        rules.length === 0
          ? emptyState(
              'No content rules yet',
              'Rules find personal data, credentials and your own expressions in prompts and responses, and block or observe them.',
              add,
            )
          : table<ContentRule>({ caption: 'Rules', rows: rules, columns: columns(context, uses) })
      }${rules.length === 0 ? '' : await ruleTest(context, rules, tested)}`,
    };
  };
  const find = async (context: ConsoleContext): Promise<ContentRule> => {
    const rule = (await contentRules.find(context.project.id)).find((found) => ruleIdOf(found) === ruleOf(context));
    if (!rule) throw gatewayError('not_found', { message: 'no such rule' });
    return rule;
  };

  return [
    get('/rules', 'member', (context) => showRules(context, null)),
    get('/rules.csv', 'member', async ({ project }) => {
      const [rules, uses] = await Promise.all([contentRules.find(project.id), ruleHits.count(project.id)]);
      const rows = rules.map((rule): CsvValue[] => {
        const { place, class: ruleClass, action, expression = null } = rule;
        return [place, ruleClass, action, expression, uses.get(ruleIdOf(rule)) ?? 0];
      });
      return {
        kind: 'csv',
        fileName: `rules-${project.slug}.csv`,
        header: ['place', 'class', 'action', 'expression', `hits_${ruleHitsDays}_days`],
        rows,
      };
    }),
    post('/rules/test', { access: 'member', action: null }, async (context, form) => ({
      kind: 'page',
      page: await showRules(context, form),
    })),
    get('/rules/:rule/hits', 'member', async (context) => ruleHitsPage(deps, context, await find(context))),
    get('/rules/new', 'owner', async (context) =>
      ruleForm(context, { action: '/rules', form: new URLSearchParams({ action: 'observe' }), errors: noErrors }),
    ),
    post(
      '/rules',
      {
        access: 'owner',
        action: 'rules.change',
        invalidForm: async (context, form, errors) => ruleForm(context, { action: '/rules', form, errors }),
      },
      async (context, form) => {
        const position = form.has('position') ? Number(form.get('position')) : undefined;
        const rule = await contentRules.add(context.project.id, readRule(form), position);
        return { kind: 'redirect', to: projectPath(context, '/rules'), notice: `The rule is added. ${saved}`, audit: { added: rule } };
      },
    ),
    get('/rules/:rule/edit', 'owner', async (context) => editRuleForm(context, await find(context))),
    post(
      '/rules/:rule/edit',
      {
        access: 'owner',
        action: 'rules.change',
        invalidForm: async (context, form, errors) => editRuleForm(context, await find(context), { form, errors }),
      },
      async (context, form) => {
        await find(context);
        const edit = readRuleEdit(form);
        const to = projectPath(context, '/rules');
        if (Object.keys(edit.change).length === 0) return { kind: 'redirect', to, notice: 'Nothing was changed.' };
        const { before, after } = await contentRules.change(context.project.id, ruleOf(context), edit.change, edit.read);
        return { kind: 'redirect', to, notice: `The rule is saved. ${saved}`, audit: { changed: { rule: { from: before, to: after } } } };
      },
    ),
    post(
      '/rules/:rule/remove',
      { access: 'owner', action: 'rules.change', invalidForm: (context) => showRules(context, null) },
      async (context) => {
        const { rule, position } = await contentRules.remove(context.project.id, ruleOf(context));
        const to = projectPath(context, '/rules');
        return {
          kind: 'redirect',
          to,
          notice: `The rule is removed: ${describeRule(rule)}.`,
          undo: { action: to, values: { ...rule, position: String(position) } },
          audit: { removed: rule },
        };
      },
    ),
  ];
}

function ruleOf({ params }: ConsoleContext): string {
  return params.rule ?? '';
}

function columns(context: ConsoleContext, uses: ReadonlyMap<string, number>): Column<ContentRule>[] {
  const path = (rule: ContentRule, page: string): string => projectPath(context, `/rules/${ruleIdOf(rule)}/${page}`);
  return [
    { label: 'Looks for', value: ruleLabel, grow: true },
    { label: 'In', value: ({ place }) => (place === 'input' ? 'Input' : 'Output') },
    { label: 'Action', value: ({ action }) => badge(action === 'block' ? 'blocks' : 'observes', action === 'block' ? 'bad' : 'warning') },
    {
      label: `Hits, ${ruleHitsDays} days`,
      align: 'end',
      value: (rule) => {
        const hits = uses.get(ruleIdOf(rule)) ?? 0;
        return hits === 0 ? html`<span class="muted">None</span>` : html`<a href="${path(rule, 'hits')}">${formatCount(hits)}</a>`;
      },
    },
    ...(context.role === 'owner'
      ? [{ label: 'Actions', align: 'end' as const, value: (rule: ContentRule) => actions(context, rule, path) }]
      : []),
  ];
}

function actions(context: ConsoleContext, rule: ContentRule, path: (rule: ContentRule, page: string) => string): Html {
  const about = describeRule(rule);
  return html`<div class="actions"><a class="button small" href="${path(rule, 'edit')}">Edit<span class="hidden"> ${about}</span></a>${actionButton(
    {
      context,
      action: path(rule, 'remove'),
      label: 'Remove',
      about,
      danger: true,
    },
  )}</div>`;
}
