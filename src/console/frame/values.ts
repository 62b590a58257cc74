import { toUsd } from '../../core/cost.ts';
import { createOncePerZone } from '../../core/time-zone.ts';
import { trimEnd } from '../../core/trim.ts';
import { createOnce } from './create-once.ts';
import { type Html, html } from './html.ts';

const dollarFormat = (options?: Intl.NumberFormatOptions) =>
  new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD', ...options });
const dollars = dollarFormat();
const wholeDollars = dollarFormat({ maximumFractionDigits: 0 });
const centFractions = dollarFormat({ maximumFractionDigits: 4 });
const smallDollars = dollarFormat({ minimumSignificantDigits: 2, maximumSignificantDigits: 2 });
const counts = new Intl.NumberFormat('en-US');
const compactCounts = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });
const percents = new Intl.NumberFormat('en-US', { style: 'percent', maximumFractionDigits: 1 });

/** Shown instead of a missing or unknown value. */
export const nothing = '–';

/** Formats USD with as many decimals as the amount needs, e.g. `$12,040`, `$12.40`, `$0.0312` or `$0.00042`. */
export function formatUsd(nanos: number | bigint | null): string {
  if (nanos === null) return nothing;
  const amount = toUsd(Number(nanos));
  const size = Math.abs(amount);
  if (size >= 10_000) return wholeDollars.format(amount);
  if (size >= 1 || size === 0) return dollars.format(amount);
  return size >= 0.01 ? centFractions.format(amount) : smallDollars.format(amount);
}

/**
 * Formats a total in dollars and cents, so that totals in a column have two decimals. Small amounts aren't rounded to
 * zero but become `< $0.01`.
 */
export function totalUsd(nanos: number | bigint | null): string {
  if (nanos === null) return nothing;
  const amount = toUsd(Number(nanos));
  return amount > 0 && amount < 0.005 ? '< $0.01' : dollars.format(amount);
}

export function total(nanos: number | bigint): Html {
  return html`<span class="num" title="${exactUsd(nanos)} USD">${totalUsd(nanos)}</span>`;
}

export function usd(nanos: number | bigint | null): Html {
  if (nanos === null) return html`<span class="muted">${nothing}</span>`;
  return html`<span class="num" title="${exactUsd(nanos)} USD">${formatUsd(nanos)}</span>`;
}

/**
 * Returns a formatter that gives the amounts of a column the same number of decimals, so that the decimal points line
 * up. That's between 2 and 6, or at most 4 if an amount is a dollar or more. Smaller amounts become e.g. `< $0.0001`.
 * The tooltip has the exact amount.
 */
export function equalUsd(amounts: readonly (number | bigint | null)[]): (nanos: number | bigint | null) => Html {
  const sizes = amounts.flatMap((nanos) => (nanos === null || Number(nanos) === 0 ? [] : [Math.abs(toUsd(Number(nanos)))]));
  const most = sizes.some((size) => size >= 1) ? 4 : 6;
  // Use enough decimals for two significant digits of the smallest amount.
  const decimals = sizes.length === 0 ? 2 : Math.min(most, Math.max(2, 1 - Math.floor(Math.log10(Math.min(...sizes)))));
  const format = dollarsOf(decimals);
  return (nanos) => {
    if (nanos === null) return html`<span class="muted">${nothing}</span>`;
    const amount = toUsd(Number(nanos));
    const isTooSmall = amount > 0 && amount < 0.5 * 10 ** -decimals;
    const text = isTooSmall ? `< ${format.format(10 ** -decimals)}` : format.format(amount);
    return html`<span class="num" title="${exactUsd(nanos)} USD">${text}</span>`;
  };
}

const dollarsOf = createOnce((decimals: number) => dollarFormat({ minimumFractionDigits: decimals, maximumFractionDigits: decimals }));

export function exactUsd(nanos: number | bigint): string {
  const amount = BigInt(nanos);
  const digits = (amount < 0n ? -amount : amount).toString().padStart(10, '0');
  const fraction = trimEnd(digits.slice(-9), '0');
  return `${amount < 0n ? '-' : ''}${digits.slice(0, -9)}${fraction === '' ? '' : `.${fraction}`}`;
}

export function formatCount(count: number | bigint | null): string {
  return count === null ? nothing : counts.format(count);
}

/** Formats a count with its noun, e.g. as `1 call` or `1,200 calls`. */
export function countOf(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

export function formatCompact(count: number | null): string {
  return count === null ? nothing : compactCounts.format(count);
}

/** Formats a share between 0 and 1, e.g. as `12.5%`. */
export function formatPercent(share: number | null): string {
  return share === null || Number.isNaN(share) ? nothing : percents.format(share);
}

/** Formats a duration, e.g. as `840 ms`, `2.40 s`, `3 min 20 s`, `2 h 5 min` or `3 d 4 h`. */
export function formatDuration(ms: number | null): string {
  if (ms === null) return nothing;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return joinUnits(Math.floor(seconds / 60), 'min', seconds % 60, 's');
  if (seconds < 86_400) return joinUnits(Math.floor(seconds / 3_600), 'h', Math.floor((seconds % 3_600) / 60), 'min');
  return joinUnits(Math.floor(seconds / 86_400), 'd', Math.floor((seconds % 86_400) / 3_600), 'h');
}

function joinUnits(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

export type TimeStyle = 'date' | 'minute' | 'second' | 'millisecond';

/** Renders a time in the given zone as `2026-11-22 14:05:09`. The tooltip includes the zone's name. */
export function time(at: number | Date | null, zone: string, style: TimeStyle = 'second'): Html {
  if (at === null) return html`<span class="muted">${nothing}</span>`;
  const iso = new Date(at).toISOString();
  return html`<time datetime="${iso}" title="${formatTimeIn(at, zone, 'millisecond')} ${zone}">${formatTimeIn(at, zone, style)}</time>`;
}

const timesIn = createOncePerZone((zone) => new Intl.DateTimeFormat('sv-SE', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' }));

export function formatTimeIn(at: number | Date, zone: string, style: TimeStyle = 'second'): string {
  const text = timesIn(zone).format(at);
  if (style === 'date') return text.slice(0, 10);
  if (style === 'minute') return text.slice(0, 16);
  return style === 'second' ? text : `${text}.${String(new Date(at).getUTCMilliseconds()).padStart(3, '0')}`;
}

/** Renders how long ago something happened, e.g. `3 min ago`, with the exact time as a tooltip. */
export function ago(at: number | Date | null, now: number, zone: string): Html {
  if (at === null) return html`<span class="muted">Never</span>`;
  const ms = Math.max(0, now - new Date(at).getTime());
  const text = ms < 60_000 ? 'just now' : `${formatDuration(coarse(ms))} ago`;
  return html`<time datetime="${new Date(at).toISOString()}" title="${formatTimeIn(at, zone)} ${zone}">${text}</time>`;
}

/** Rounds down, from minutes for short durations to days for long ones. */
function coarse(ms: number): number {
  const unit = ms < 3_600_000 ? 60_000 : ms < 86_400_000 ? 3_600_000 : 86_400_000;
  return Math.floor(ms / unit) * unit;
}

export function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Turns an error message into a sentence, because ours start in lower case and have no full stop. */
export function sentence(message: string): string {
  const text = message.charAt(0).toUpperCase() + message.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/**
 * Formats a setting on one line, e.g. as `a, b`, or `class email, action block; class iban, action observe` for a list
 * of objects.
 */
export function formatSetting(value: unknown): string {
  if (value === null || value === undefined) return 'not set';
  if (Array.isArray(value)) {
    if (value.length === 0) return 'none';
    return value.map(formatSetting).join(value.every((entry) => typeof entry === 'string') ? ', ' : '; ');
  }
  if (typeof value !== 'object') return String(value);
  return Object.entries(value)
    .map(([name, inner]) => `${name} ${formatSetting(inner)}`)
    .join(', ');
}

const maxLineLength = 220;

export function shorten(text: string, maxLength = maxLineLength): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length <= maxLength ? line : `${line.slice(0, maxLength - 1).toWellFormed()}…`;
}
