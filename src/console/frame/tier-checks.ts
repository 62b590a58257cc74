/**
 * Keeps people from breaking routing by accident. Forms with an unknown provider are rejected, and changes with other
 * consequences have to be confirmed.
 */
import { gatewayError } from '../../core/errors.ts';
import { sha256 } from '../../core/sha256.ts';
import type { TierKind } from '../../projects/tiers.ts';
import type { RoutingFindings } from '../../routing/check-change.ts';
import { checkModel, type ModelScope } from '../../routing/check-models.ts';
import type { SubmittedForm } from './field-errors.ts';
import { badge, notice } from './figures.ts';
import { checkboxField } from './form.ts';
import { type Html, html } from './html.ts';
import { sentence } from './values.ts';

export interface SubmittedTiers extends SubmittedForm {
  readonly findings?: RoutingFindings;
}

const fieldName = 'confirmed';

/** Throws `bad_request` if the change contains mistakes, or causes warnings that haven't been confirmed. */
export function assertSafeChange({ mistakes, warnings }: RoutingFindings, form: URLSearchParams): void {
  if (mistakes.length > 0) {
    const [first, ...others] = mistakes;
    const more =
      others.length === 0 ? '' : `, and there ${others.length === 1 ? 'is another mistake' : `are ${others.length} other mistakes`}`;
    throw gatewayError('bad_request', {
      message: `nothing was saved: ${first?.message}${more}`.replace(/\?, and/, ', and'),
      issues: mistakes,
    });
  }
  if (warnings.length > 0 && form.get(fieldName) !== toConfirmation({ warnings }))
    throw gatewayError('bad_request', {
      message: 'nothing was saved yet; read the warnings below, and confirm them if you want to save anyway',
    });
}

/**
 * Renders the warnings and a checkbox to confirm them, for the end of the form. If the warnings change, they have to be
 * confirmed again.
 */
export function confirmationOf({ mistakes, warnings }: RoutingFindings): Html | '' {
  if (warnings.length === 0 || mistakes.length > 0) return '';
  const text = html`It may not be what you want:<ul>${warnings.map(({ message }) => html`<li>${sentence(message)}</li>`)}</ul>`;
  return html`${notice(text, 'warning', 'Check what this change does')}${checkboxField({
    name: fieldName,
    value: toConfirmation({ warnings }),
    label: 'Save it anyway',
  })}`;
}

/** Identifies a set of warnings. The form sends it back, so that a confirmation only counts for the same warnings. */
function toConfirmation({ warnings }: Pick<RoutingFindings, 'warnings'>): string {
  return sha256(JSON.stringify(warnings)).toString('hex').slice(0, 16);
}

const marks: Readonly<Record<string, string>> = {
  unknown_provider: 'unknown provider',
  provider_not_in_project: 'provider not allowed',
  route_not_served: 'not served by its provider',
  route_not_for_model: 'not a model for this',
};

/** Returns a badge if the project may not use the model, or if the model isn't in the catalog. */
export function markModel(scope: ModelScope, kind: TierKind, model: string): Html | '' {
  const { reason, lacks, isListed } = checkModel(scope, kind, model);
  if (reason === 'tags_missing') return badge(`provider lacks ${lacks.join(', ')}`, 'bad');
  if (reason !== null) return badge(marks[reason] ?? reason, 'bad');
  return isListed ? '' : badge('not in the catalog', 'warning');
}
