/**
 * Keeps people from breaking routing by accident. A form with an unknown provider isn't saved. A form whose change has
 * other consequences is only saved once the person has confirmed them.
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
  /** What's wrong or risky about the change. If there are warnings, the person has to confirm them. */
  readonly findings?: RoutingFindings;
}

const fieldName = 'confirmed';

/** Throws `bad_request` if there are mistakes, or warnings that the person hasn't confirmed. */
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
    throw gatewayError('bad_request', { message: 'nothing was saved yet: read the warnings below, and confirm them if you want to go on' });
}

/**
 * Lists the warnings with a checkbox to confirm them, and belongs at the end of the form. If the warnings change, the
 * person has to confirm again.
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

/**
 * Identifies these warnings. The form sends this back, so we can tell whether the person has confirmed the same
 * warnings that we've found now.
 */
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
