/** Renders the ceilings of keys and applications and their form fields. */
import { type CounterKey, formatCounterKey } from '../../ceilings/counters.ts';
import { type Ceiling, type CeilingName, type WindowKind, windowAt } from '../../core/windows.ts';
import type { SubmittedForm } from './field-errors.ts';
import { meter } from './figures.ts';
import { fillFields, selectField, textField, toOptions } from './form.ts';
import { numberOrNull } from './form-values.ts';
import { type Html, html } from './html.ts';
import { formatCompact, formatCount, formatUsd } from './values.ts';

export interface CeilingUse {
  readonly name: CeilingName;
  readonly limit: number;
  readonly window: WindowKind;
  readonly used: number;
  /** What running calls have reserved, which is an upper bound for their usage. */
  readonly reserved: number;
}

const labels: Readonly<Record<CeilingName, string>> = { calls: 'Calls', cost: 'Cost', rpm: 'Calls per minute', tpm: 'Tokens per minute' };
const windowLabels: Readonly<Record<WindowKind, string>> = {
  minute: 'this minute',
  day: 'today',
  month: 'this month',
  total: 'in total',
};

export function countersOf(
  holder: Pick<CounterKey, 'projectId' | 'scope' | 'scopeId'>,
  ceilings: Partial<Readonly<Record<CeilingName, Ceiling>>>,
  now: number,
): { readonly key: CounterKey; readonly limit: number }[] {
  return ceilingNames.flatMap((ceiling) => {
    const { limit = null, window = 'total' } = ceilings[ceiling] ?? {};
    return limit === null ? [] : [{ key: { ...holder, ceiling, window, ...windowAt(window, now) }, limit }];
  });
}

const ceilingNames = ['cost', 'calls', 'rpm', 'tpm'] as const;

/** Adds the current usage to each counter. The usage is 0 if the counter is missing from `counted`. */
export function toUses(
  counters: readonly { readonly key: CounterKey; readonly limit: number }[],
  counted: ReadonlyMap<string, { readonly used: number; readonly reserved: number }>,
): CeilingUse[] {
  return counters.map(({ key, limit }) => {
    const { used, reserved } = counted.get(formatCounterKey(key)) ?? { used: 0, reserved: 0 };
    return { name: key.ceiling, limit, window: key.window, used, reserved };
  });
}

export function ceilingMeters(uses: readonly CeilingUse[]): Html {
  if (uses.length === 0) return html`<span class="muted">No ceiling</span>`;
  return html`<div class="meters">${uses.map((use) =>
    meter({ label: labels[use.name], value: use.used + use.reserved, max: use.limit, text: describeUse(use) }),
  )}</div>`;
}

function describeUse({ name, limit, window, used, reserved }: CeilingUse): string {
  const running = reserved === 0 ? '' : `, ${formatShort(name, reserved)} reserved`;
  const unit = name === 'calls' || name === 'rpm' ? ' calls' : name === 'tpm' ? ' tokens' : '';
  return `${formatShort(name, used)} of ${formatShort(name, limit)}${unit} ${windowLabels[window]}${running}`;
}

function formatShort(name: CeilingName, amount: number): string {
  return name !== 'cost' && amount >= 100_000 ? formatCompact(amount) : formatAmount(name, amount);
}

/**
 * Formats the limit or the usage of a ceiling. The unit of `amount` depends on the ceiling: nano-dollars, calls or
 * tokens.
 */
export function formatAmount(name: CeilingName, amount: number): string {
  return name === 'cost' ? formatUsd(amount) : formatCount(amount);
}

/** Describes a ceiling, e.g. as `$5 per day` or `60 calls per minute`. Returns null if it's unlimited. */
export function describeCeiling(name: CeilingName, { limit, window }: Ceiling): string | null {
  if (limit === null) return null;
  const unit = name === 'cost' ? '' : name === 'tpm' ? ' tokens' : ' calls';
  return `${formatAmount(name, limit)}${unit} ${window === 'total' ? 'in total' : `per ${window}`}`;
}

/** `withRates` adds fields for ceilings per minute, which only keys can have. */
export function ceilingFields({ form, errors, withRates }: SubmittedForm & { readonly withRates: boolean }): Html {
  const filled = fillFields(form, errors);
  const limit = (name: CeilingName, unit: string, step: number | 'any') =>
    textField({
      ...filled(`ceilings.${name}`),
      label: labels[name],
      ...{ type: 'number', min: 0, step, unit, placeholder: 'Unlimited' },
    });
  const window = (name: 'calls' | 'cost') =>
    selectField({
      name: `windows.${name}`,
      label: html`Window<span class="hidden"> of ${labels[name].toLowerCase()}</span>`,
      value: form.get(`windows.${name}`) ?? 'month',
      error: errors.of(`windows.${name}`),
      required: true,
      options: toOptions({ day: 'Per day (UTC)', month: 'Per month (UTC)', total: 'In total' }),
    });
  return html`<div class="field-row">${limit('cost', 'USD', 'any')}${window('cost')}</div>
<div class="field-row">${limit('calls', 'calls', 1)}${window('calls')}</div>
${withRates ? html`<div class="field-row">${limit('rpm', 'calls', 1)}${limit('tpm', 'tokens', 1)}</div>` : ''}`;
}

/**
 * Returns the limit from the form, or null if the field is empty. Invalid values are returned unchanged, because the
 * store rejects them.
 */
export function readLimit(form: URLSearchParams, name: CeilingName): number | string | null {
  return numberOrNull(form, `ceilings.${name}`);
}
