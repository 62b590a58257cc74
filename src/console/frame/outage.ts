/**
 * Keys and projects can choose what happens to their calls while the database is down and ceilings can't be checked.
 * Renders the field and describes the current choice.
 */
import type { StoreDownPolicy } from '../../core/windows.ts';
import { selectField, toOptions } from './form.ts';
import type { Html } from './html.ts';

interface ChosenPolicy {
  readonly policy: StoreDownPolicy;
  readonly from: 'key' | 'project' | 'deployment';
}

const effects: Readonly<Record<StoreDownPolicy, string>> = {
  allow:
    'Calls are still allowed. When a ceiling cannot be checked, each process may use up to a tenth of it, or all of it if it is a ceiling per minute. After that, calls are refused with status 503.',
  refuse: 'Calls whose ceilings cannot be checked are refused with status 503.',
};
const choosers: Readonly<Record<ChosenPolicy['from'], string>> = {
  key: 'This is set for the key.',
  project: 'This is set for the project.',
  deployment: 'This is set in the configuration of the gateway.',
};

export function describeOutage({ policy, from }: ChosenPolicy): string {
  return `${effects[policy]} ${choosers[from]}`;
}

interface OutageFieldOptions {
  readonly value: string | null;
  readonly error: string | undefined;
  readonly inherited: ChosenPolicy & { readonly from: 'project' | 'deployment' };
  readonly hint: string;
}

export function outageField({ value, error, inherited, hint }: OutageFieldOptions): Html {
  const names = { allow: 'Allow calls, up to a tenth of each ceiling', refuse: 'Refuse calls' };
  const heading = inherited.from === 'project' ? 'Same as the project' : 'Same as the gateway';
  return selectField({
    name: 'on_budget_store_down',
    label: 'When the database cannot be reached',
    hint,
    value: value ?? '',
    error,
    options: toOptions({ '': `${heading}: ${names[inherited.policy].toLowerCase()}`, ...names }),
  });
}
