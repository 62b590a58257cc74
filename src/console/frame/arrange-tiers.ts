/**
 * Applies the command of a button in the fields for tiers to the form: it moves, adds or removes a model or a tier, or
 * copies an inherited tier.
 */
import { formRows, type InheritedTier, setRows, type TierRow } from './tier-fields.ts';

/**
 * Returns the changed form. The command is such as `up:tiers:0:2`, with the name of the fields, the tier and the model.
 * A command that makes no sense changes nothing, because the form may be older than the page.
 */
export function arrangeTiers(form: URLSearchParams, inherited: (name: string) => readonly InheritedTier[]): URLSearchParams {
  const changed = new URLSearchParams(form);
  const [command = '', name = '', ...rest] = (form.get('arrange') ?? '').split(':');
  changed.delete('arrange');
  const rows = formRows(form, name);
  const copied = command === 'copy' ? inherited(name).find((tier) => tier.name === rest.join(':')) : undefined;
  const arranged = copied ? [...rows, { tier: copied.name, models: copied.models }] : arrange(rows, command, rest.map(Number));
  if (name !== '') setRows(changed, name, arranged);
  return changed;
}

function arrange(rows: readonly TierRow[], command: string, [row = -1, index = -1]: readonly number[]): readonly TierRow[] {
  const changeModels = (change: (models: readonly string[]) => readonly string[]): readonly TierRow[] =>
    rows.map((entry, at) => (at === row ? { ...entry, models: change(entry.models) } : entry));
  switch (command) {
    case 'add-tier':
      return [...rows, { tier: '', models: [] }];
    case 'remove-tier':
      return rows.filter((_, at) => at !== row);
    case 'add':
      return changeModels((models) => [...models, '']);
    case 'remove':
      return changeModels((models) => models.filter((_, at) => at !== index));
    case 'up':
      return changeModels((models) => swap(models, index - 1, index));
    case 'down':
      return changeModels((models) => swap(models, index, index + 1));
    default:
      return rows;
  }
}

function swap(models: readonly string[], one: number, other: number): readonly string[] {
  const [first, second] = [models[one], models[other]];
  return first === undefined || second === undefined ? models : models.with(one, second).with(other, first);
}
