/** Finds numbers and relative dates in text of any language. */
import { limitMarks } from '../../core/combining-marks.ts';

/** Matches `1,500`, `1 500`, `１５００` and `١٥٠٠` as one number each, and `8:30` and `2026-11-27` as several numbers. */
const numberPattern = /\d+(?:[.,'’]\d+)*(?: \d{3}(?!\d))*/g;

/** For each number, returns its digits without separators, followed by its parts, e.g. `35`, `3` and `5` for `3.5`. */
export function findNumbers(text: string): string[][] {
  const plain = foldDigits(limitMarks(text).normalize('NFKC'));
  return (plain.match(numberPattern) ?? []).map((token) => [token.replace(/\D/g, ''), ...token.split(/\D/)].map(trimZeros));
}

function trimZeros(digits: string): string {
  return digits.replace(/^0+(?=\d)/, '');
}

/** Converts the digits of all scripts to ASCII. In Unicode, the ten digits of a script are consecutive. */
function foldDigits(text: string): string {
  return text.replace(/[^\P{Nd}0-9]/gu, (digit) => {
    const code = digit.codePointAt(0) ?? 0;
    let before = 0;
    while (/\p{Nd}/u.test(String.fromCodePoint(code - before - 1))) before += 1;
    return String(before % 10);
  });
}

/**
 * A relative date, as the model understood it. If a message was written on a Friday, `next Friday` has the offset
 * `P7D`.
 */
export interface RelativeDate {
  readonly said: string;
  /** An ISO 8601 duration with a single unit, counted from the day of the message. */
  readonly offset: string;
}

/**
 * Adds an offset like `-P3Y` to a date and returns the year, month and day of the result, but only the parts that the
 * offset determines. That's just the year if the offset is in years, and the year and month if it's in months. Returns
 * an empty list if the offset is invalid.
 */
export function resolveOffset(from: Date, offset: string): string[] {
  const { sign, count, unit } = /^(?<sign>-?)P(?<count>\d{1,4})(?<unit>[DWMY])$/.exec(offset)?.groups ?? {};
  const steps = Number(`${sign}${count}`);
  const date = new Date(from);
  if (unit === 'Y') return [String(date.getUTCFullYear() + steps)];
  if (unit === 'M') date.setUTCMonth(date.getUTCMonth() + steps, 1);
  else date.setUTCDate(date.getUTCDate() + steps * (unit === 'W' ? 7 : 1));
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth() + 1, date.getUTCDate()].map(String);
  if (unit === undefined || !year || !month || !day) return [];
  return unit === 'M' ? [year, month] : [year, month, day];
}
