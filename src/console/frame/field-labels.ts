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
  const labels = new Map([...settingLabels, ...Object.entries(filterLabels)]);
  for (const [, field, label, group, legend] of page.matchAll(labelPattern))
    labels.set(field ?? group ?? '', toText(label ?? legend ?? ''));
  return page.replaceAll(/<field-label>(.*?)<\/field-label>/gs, (_, path: string) => describeField(path, labels));
}

/** The text stays escaped. */
function toText(label: string): string {
  return label.replaceAll(/ <span class="optional">.*?<\/span>|<[^>]*>/gs, '');
}

/** The labels of settings, for pages that don't show their form. A test compares them with the labels of the forms. */
const settingLabels: ReadonlyMap<string, string> = new Map([
  // Keys
  ['ceilings.rpm', 'Ceilings, calls per minute'],
  ['ceilings.tpm', 'Ceilings, tokens per minute'],
  ['windows.calls', 'Window of calls'],
  ['windows.cost', 'Window of cost'],
  ['models', 'Models and tiers'],
  ['default_max_output_tokens', 'Default output limit (tokens)'],
  ['grace_seconds', 'The old key ends in (seconds)'],
  // Projects and applications
  ['may_call', 'The project may send calls'],
  ['on_budget_store_down', 'When the database cannot be reached'],
  ['error_codes', "Errors have the vendor's code where it names one"],
  ['cache.enabled', 'Answer identical calls of chat and messages from the cache'],
  ['cache.ttl_seconds', 'Responses are kept for (seconds)'],
  ['cache_sampled', 'Also answer calls that ask for sampling'],
  ['tiers', 'Tiers for text'],
  ['image_tiers', 'Tiers for images'],
  ['speech_tiers', 'Tiers for speech'],
  ['transcription_tiers', 'Tiers for transcription'],
  ['retired', 'Retired models and providers'],
  // Memory
  ['enabled', 'Memory is on'],
  ['only_senders', 'Only these senders'],
  ['delete_conversations_after_days', 'Delete conversations after (days)'],
  ['delete_unlearned', "Also delete conversations that memory hasn't learned from"],
  ['batch_of', 'Batch of (messages)'],
  ['at_least_every_minutes', 'At least every (minutes)'],
  ['recall_budget_tokens', 'Recall, budget per call (tokens)'],
  // Others
  ['class', 'Looks for'],
  ['rule.class', 'Rule, looks for'],
  ['email', 'E-mail address'],
  ['days', 'Expires after (days)'],
  ['table', 'Price table'],
  ['as', 'Names of vendors in the table'],
]);

/** No field with a label has a longer path. Callers can make up names with thousands of segments. */
const maxLabelSegments = 8;

/**
 * Returns the label of the field, or of the list or object that contains it. For example, `tiers.standard.0` becomes
 * `Tiers for text (standard, entry 1)`. If there's no label, e.g. because a newer version has added the field, the
 * label is made of the path.
 */
export function describeField(path: string, labels: ReadonlyMap<string, string> = settingLabels): string {
  const segments = path.split('.');
  for (let length = Math.min(segments.length, maxLabelSegments); length > 0; length -= 1) {
    const label = labels.get(segments.slice(0, length).join('.'));
    if (label !== undefined)
      return length === segments.length ? label : `${label} (${segments.slice(length).map(describeSegment).join(', ')})`;
  }
  const words = segments.map((segment) => describeSegment(segment).replaceAll('_', ' ')).join(', ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}
