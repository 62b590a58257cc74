/**
 * Lets keys and projects choose what happens to calls while the database is unreachable and ceilings can't be
 * checked. Also describes the current choice.
 */
import type { StoreDownPolicy } from '../../core/windows.ts';
import { selectField } from './form.ts';
import type { Html } from './html.ts';

interface ChosenPolicy {
  readonly policy: StoreDownPolicy;
  /** The level at which the policy was set. */
  readonly from: 'key' | 'project' | 'deployment';
}

const effects: Readonly<Record<StoreDownPolicy, string>> = {
  allow:
    'Calls go on. Those whose ceilings cannot be checked may use up to a tenth of each ceiling, or all of a ceiling per minute, in each process; then they are refused with 503.',
  refuse: 'Calls whose ceilings cannot be checked are refused with 503.',
};
const choosers: Readonly<Record<ChosenPolicy['from'], string>> = {
  key: 'The key says so.',
  project: 'The project says so.',
  deployment: 'The configuration of the gateway says so.',
};

export function describeOutage({ policy, from }: ChosenPolicy): string {
  return `${effects[policy]} ${choosers[from]}`;
}

interface OutageFieldOptions {
  readonly value: string | null;
  readonly error: string | undefined;
  /** The policy that applies if none is chosen in this field. */
  readonly inherited: ChosenPolicy & { readonly from: 'project' | 'deployment' };
  readonly hint: string;
}

export function outageField({ value, error, inherited, hint }: OutageFieldOptions): Html {
  const names = { allow: 'Let calls pass, up to a tenth of each ceiling', refuse: 'Refuse calls' };
  const heading = inherited.from === 'project' ? 'As the project' : 'As the gateway';
  return selectField({
    name: 'on_budget_store_down',
    label: 'When the database cannot be reached',
    hint,
    value: value ?? '',
    error,
    options: [
      { value: '', label: `${heading}: ${names[inherited.policy].toLowerCase()}` },
      { value: 'allow', label: names.allow },
      { value: 'refuse', label: names.refuse },
    ],
  });
}
