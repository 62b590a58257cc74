/** Tests a project's rules on a text that people enter. We never store the text or put it into a URL. */
import { setImmediate as turn } from 'node:timers/promises';
import type { ContentRule } from '../../guardrails/content-rule.ts';
import { compileRules, evaluateTexts } from '../../guardrails/rules.ts';
import { badge, notice, form as renderForm, section, selectField, table, textArea } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext } from '../frame/route.ts';
import { classLabels, placeOptions, ruleLabel } from './rule-form.ts';

interface RuleResult {
  readonly rule: ContentRule;
  /** Null if the rule wasn't evaluated, because earlier ones took too long. */
  readonly isMatch: boolean | null;
}

const maxTextLength = 10_000;

export async function ruleTest(context: ConsoleContext, rules: readonly ContentRule[], form: URLSearchParams | null): Promise<Html> {
  const place = form?.get('place') === 'output' ? 'output' : 'input';
  const text = form?.get('text') ?? '';
  const results =
    form === null
      ? null
      : await evaluateRules(
          context.project.id,
          rules.filter((rule) => rule.place === place),
          text.slice(0, maxTextLength),
        );
  return section(
    'Test a text',
    html`${renderForm({
      context,
      action: projectPath(context, '/rules/test'),
      submit: 'Test',
      fields: [
        textArea({ name: 'text', label: 'Text', value: text, rows: 5, required: true, maxLength: maxTextLength }),
        selectField({ name: 'place', label: 'Place', value: place, required: true, options: placeOptions }),
      ],
    })}${results === null ? '' : resultsOf(results, place)}`,
    { hint: 'Shows which rules match. The text is not stored.', id: 'test' },
  );
}

/**
 * Evaluates each rule on its own, because a blocking rule would end the evaluation for a call. An expression can take a
 * second, so other requests run between two rules. After `budgetMs`, the remaining rules are skipped.
 */
export async function evaluateRules(project: string, rules: readonly ContentRule[], text: string, budgetMs = 2_000): Promise<RuleResult[]> {
  const results: RuleResult[] = [];
  const startedAt = performance.now();
  for (const rule of rules) {
    const placed = compileRules([rule])[rule.place];
    if (!placed || (results.length > 0 && performance.now() - startedAt >= budgetMs)) {
      results.push({ rule, isMatch: null });
      continue;
    }
    const { blockedBy, observed, unfinished } = await evaluateTexts(placed, [text], { project });
    const isMatch = blockedBy !== null || observed.length > 0;
    results.push({ rule, isMatch: unfinished === null ? isMatch : null });
    await turn();
  }
  return results;
}

function resultsOf(results: readonly RuleResult[], place: ContentRule['place']): Html {
  const blocking = results.find(({ rule, isMatch }) => isMatch && rule.action === 'block');
  const what = place === 'input' ? 'The call would be refused with 403' : 'The response would be withheld with 403';
  return html`${
    blocking
      ? notice(html`Blocked by the rule: ${ruleLabel(blocking.rule)}.`, 'bad', what)
      : results.some(({ isMatch }) => isMatch === null)
        ? notice('The rules take too long on this text. Try a shorter one.', 'warning', 'Not all rules were tested')
        : notice(
            results.some(({ isMatch }) => isMatch) ? 'Matching rules only observe.' : 'No rule matches.',
            'good',
            'The text would pass',
          )
  }${table<RuleResult>({
    caption: `Rules on the ${place}`,
    showCaption: true,
    rows: results,
    empty: `There is no rule on the ${place}.`,
    columns: [
      { label: 'Class', value: ({ rule }) => classLabels[rule.class] },
      {
        label: 'Expression',
        value: ({ rule }) => (rule.expression === undefined ? null : html`<code>${rule.expression}</code>`),
        grow: true,
      },
      { label: 'Action', value: ({ rule }) => (rule.action === 'block' ? 'Block' : 'Observe') },
      {
        label: 'Result',
        value: ({ rule, isMatch }) =>
          isMatch === null
            ? badge('not tested: took too long', 'warning')
            : isMatch
              ? badge('matches', rule.action === 'block' ? 'bad' : 'warning')
              : badge('no match'),
      },
    ],
  })}`;
}
