/**
 * Handles the buttons of the tier fields, which move, add or remove a model or tier, or copy an inherited tier into the
 * form.
 */
import { type TierKind, tierKinds } from '../../projects/tiers.ts';
import { formRows, type InheritedTier, setRows, type TierRow } from './tier-fields.ts';

/**
 * Applies the form's `arrange` command and returns the changed form. For example, `up:tiers:0:2` moves the third model
 * of the first tier up, where `tiers` is the name of the fields. Commands that don't fit the form are ignored.
 */
export function arrangeTiers(form: URLSearchParams, inherited: (kind: TierKind) => readonly InheritedTier[]): URLSearchParams {
  const changed = new URLSearchParams(form);
  const [command = '', name = '', ...rest] = (form.get('arrange') ?? '').split(':');
  changed.delete('arrange');
  const kind = tierKinds.find((known) => known === name);
  if (kind === undefined) return changed;
  const rows = formRows(form, kind);
  const copied = command === 'copy' ? inherited(kind).find((tier) => tier.name === rest.join(':')) : undefined;
  const arranged = copied ? [...rows, { tier: copied.name, models: copied.models }] : arrange(rows, command, rest.map(Number));
  setRows(changed, kind, arranged);
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
