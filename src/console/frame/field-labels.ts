/**
 * Our errors name a field by its path. In the console, we show the field's label instead, which we only know once the
 * form has been rendered. So `fieldLabel` renders a placeholder, and `resolveFieldLabels` fills it in on the finished
 * page.
 */
import { formatIssues, type Issue } from '../../core/error-messages.ts';
import { filterLabels } from './call-filters.ts';
import { describeSegment } from './field-errors.ts';
import { type Html, html } from './html.ts';
import { sentence } from './values.ts';

export function fieldLabel(path: string): Html {
  return html`<field-label>${path}</field-label>`;
}

/** Formats an error as a sentence, with labels instead of paths. */
export function describeError({ message, issues }: { readonly message: string; readonly issues: readonly Issue[] }): Html | string {
  if (message !== formatIssues(issues) || issues.every(({ path }) => path === '')) return sentence(message);
  const parts = issues.map((issue) => (issue.path === '' ? issue.message : html`${fieldLabel(issue.path)}: ${issue.message}`));
  return html`${parts.map((part, index) => (index === 0 ? part : html`; ${part}`))}${/[.!?]$/.test(message) ? '' : '.'}`;
}

/** The labels of form fields, and of groups of fields that are marked with `data-field`. */
const labelPattern = /<label for="field-([^"]+)">(.*?)<\/label>|<(?:summary|legend) data-field="([^"]+)">(.*?)<\/(?:summary|legend)>/gs;

export function resolveFieldLabels(page: string): string {
  if (!page.includes('<field-label>')) return page;
  const labels = new Map(Object.entries(filterLabels));
  for (const [, field, label, group, legend] of page.matchAll(labelPattern))
    labels.set(field ?? group ?? '', toText(label ?? legend ?? ''));
  return page.replaceAll(/<field-label>(.*?)<\/field-label>/gs, (_, path: string) => labelOf(path, labels));
}

/** The text stays escaped. */
function toText(label: string): string {
  return label.replaceAll(/ <span class="optional">.*?<\/span>|<[^>]*>/gs, '');
}

/**
 * Returns the label of the field, or of the list or object that contains it. For example, `tiers.standard.0` becomes
 * `Tiers for text (standard, entry 1)`.
 */
function labelOf(path: string, labels: ReadonlyMap<string, string>): string {
  const segments = path.split('.');
  for (let length = segments.length; length > 0; length -= 1) {
    const label = labels.get(segments.slice(0, length).join('.'));
    if (label !== undefined)
      return length === segments.length ? label : `${label} (${segments.slice(length).map(describeSegment).join(', ')})`;
  }
  return describeField(path);
}

/** Describes fields whose names in the API aren't clear enough. */
const fieldNames: ReadonlyMap<string, string> = new Map([
  ['rpm', 'calls per minute'],
  ['tpm', 'tokens per minute'],
  ['ttl_seconds', 'seconds to keep a response'],
  ['may_call', 'may send calls'],
  ['on_budget_store_down', 'when the database cannot be reached'],
  ['cache_sampled', 'cache responses to calls with sampling'],
  ['only_senders', 'only these senders'],
  ['delete_conversations_after_days', 'delete conversations after (days)'],
  ['delete_unlearned', 'delete also what is not learned'],
  ['batch_of', 'batch of (messages)'],
  ['at_least_every_minutes', 'at least every (minutes)'],
]);

/**
 * Returns a label for a field whose form isn't on the page, e.g. `Ceilings, calls per minute` for `ceilings.rpm`. We
 * don't know all fields, because the API or a newer version may have changed them.
 */
export function describeField(path: string): string {
  const words = path
    .split('.')
    .map((name) => fieldNames.get(name) ?? name.replaceAll('_', ' '))
    .join(', ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}
