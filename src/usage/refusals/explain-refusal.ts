/**
 * Explains in plain English why a call was refused and what to do about it, for the API, the CLI, MCP and the console.
 */
import { toUsd } from '../../core/cost.ts';
import type { RefusalReason } from '../../core/refusal.ts';
import type { RefusedCallRow } from './read-refusals.ts';

type ExplainedRow = Pick<RefusedCallRow, 'reason' | 'rule' | 'limit' | 'source' | 'requestedModel'>;

export const reasonLabels: Readonly<Record<RefusalReason, string>> = {
  key_expired: 'Key expired',
  key_revoked: 'Key revoked',
  calls_off: 'Calls turned off',
  key_ceiling: 'Ceiling of the key',
  application_ceiling: 'Ceiling of the application',
  project_cap: 'Monthly cap of the project',
  ceilings_unchecked: 'Ceilings could not be checked',
  content_rule: 'Content rule',
  content_rule_unfinished: 'Content rule not finished',
  model_unknown: 'Unknown model',
  model_not_permitted: 'Model not permitted for the key',
  model_without_price: 'Model without a price',
  provider_not_allowed: 'Provider not allowed',
  tags_missing: 'Required tags missing',
  no_model: 'No model available',
};

export function explainRefusal(row: ExplainedRow): { explanation: string; advice: string } {
  const model = row.requestedModel === null ? 'the requested model' : `“${row.requestedModel}”`;
  const application = row.source === null ? 'the application' : `the application “${row.source}”`;
  switch (row.reason) {
    case 'key_expired':
      return {
        explanation: 'The key had expired.',
        advice: 'Issue a new key, or extend the expiry of this one if it should keep working.',
      };
    case 'key_revoked':
      return {
        explanation: 'The key had been revoked.',
        advice: 'A revoked key never works again. Issue a new key, and find out which application still uses the old one.',
      };
    case 'calls_off':
      return {
        explanation: 'Calls were turned off for the project.',
        advice: 'An owner can turn calls on again in the project settings.',
      };
    case 'key_ceiling':
      return {
        explanation: `The call would have exceeded the key's ceiling of ${describeCeiling(row)}.`,
        advice: `${waitFor(row)} Or raise the ceiling of the key.`,
      };
    case 'application_ceiling':
      return {
        explanation: `The call would have exceeded the ceiling of ${describeCeiling(row)} for ${application}.`,
        advice: `${waitFor(row)} Or raise the ceiling of the application.`,
      };
    case 'project_cap':
      return {
        explanation: `The call would have exceeded the project's monthly cap of ${describeCeiling({ ...row, rule: null })}.`,
        advice: 'Raise the monthly cap of the project, or wait until the next month begins (in UTC).',
      };
    case 'ceilings_unchecked':
      return {
        explanation: `The database was unavailable, so the ceiling of ${describeCeiling(row)} could not be checked.`,
        advice: 'Try again. The key and the project decide whether calls are allowed or refused while the database is unavailable.',
      };
    case 'content_rule':
      return {
        explanation: `A content rule for “${row.rule ?? 'unknown'}” matched the text of the request.`,
        advice: 'Remove what the rule forbids from the request, or change the content rules if the match is wrong.',
      };
    case 'content_rule_unfinished':
      return {
        explanation: `The content rule for “${row.rule ?? 'unknown'}” could not be evaluated in time.`,
        advice: 'Shorten the text, or simplify the expression of the rule.',
      };
    case 'model_unknown':
      return {
        explanation: `There is no model or tier ${model}, or no provider that serves it.`,
        advice: 'Check the spelling, or add the tier to the routing of the project.',
      };
    case 'model_not_permitted':
      return {
        explanation: `The key is not allowed to use ${model}.`,
        advice: 'Call a model that the key permits, or add this one to the models of the key.',
      };
    case 'model_without_price':
      return {
        explanation: `There is no price for ${model}, and a ceiling on cost needs one.`,
        advice: 'Add a price for the model to the catalog, or call a model that has one.',
      };
    case 'provider_not_allowed':
      return {
        explanation: `The project is not allowed to use any provider that serves ${model}.`,
        advice: 'Allow the provider in the routing of the project, or call another model.',
      };
    case 'tags_missing':
      return {
        explanation: `No provider of ${model} has every tag that the project and the key require. Missing: ${row.rule ?? 'unknown'}.`,
        advice: 'Call a model whose provider has the tags, or change the required tags of the project or the key.',
      };
    case 'no_model':
      return {
        explanation: `No model was available for ${model} on this route.`,
        advice: 'Check the tiers of the project, and which routes the models are for. A dry run shows why a model is skipped.',
      };
  }
}

/**
 * Describes a ceiling, e.g. as `100 calls per day`. If we don't know the rule, we assume that the limit is an amount of
 * money.
 */
function describeCeiling({ rule, limit }: Pick<ExplainedRow, 'rule' | 'limit'>): string {
  const [name = 'cost', window = ''] = (rule ?? 'cost').split('/');
  const per = { minute: ' per minute', day: ' per day', month: ' per month', total: ' in total' }[window] ?? '';
  if (limit === null) return `${nouns[name] ?? name}${per}`;
  if (name === 'cost') return `${formatDollars(limit)}${per}`;
  return `${limit.toLocaleString('en-US')} ${limit === 1 ? (nouns[name] ?? name).replace(/s$/, '') : (nouns[name] ?? name)}${per}`;
}

const nouns: Readonly<Record<string, string>> = { calls: 'calls', rpm: 'calls', tpm: 'tokens', cost: 'cost' };

function formatDollars(nanos: number): string {
  return `$${toUsd(nanos).toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 9 })}`;
}

function waitFor({ rule }: Pick<ExplainedRow, 'rule'>): string {
  switch (rule?.split('/')[1]) {
    case 'minute':
      return 'Wait for the next minute.';
    case 'day':
      return 'Wait until the next day begins (in UTC).';
    case 'month':
      return 'Wait until the next month begins (in UTC).';
    default:
      return 'The ceiling has no window, so waiting does not help.';
  }
}
