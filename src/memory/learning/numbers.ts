/** Numbers and relative dates, compared without knowledge of any language. */
import { limitMarks } from '../../core/combining-marks.ts';

/** `1,500`, `1 500`, `１５００` and `١٥٠٠` are one number; `8:30` and `2026-11-27` are several. */
const numberPattern = /\d+(?:[.,'’]\d+)*(?: \d{3}(?!\d))*/g;

/** Returns each number as its digits without separators, followed by its parts: `3.5` gives `35`, `3` and `5`. */
export function findNumbers(text: string): string[][] {
  const plain = foldDigits(limitMarks(text).normalize('NFKC'));
  return (plain.match(numberPattern) ?? []).map((token) => [token.replace(/\D/g, ''), ...token.split(/\D/)].map(trimZeros));
}

function trimZeros(digits: string): string {
  return digits.replace(/^0+(?=\d)/, '');
}

/** The digits of a script follow each other from zero to nine. */
function foldDigits(text: string): string {
  return text.replace(/[^\P{Nd}0-9]/gu, (digit) => {
    const code = digit.codePointAt(0) ?? 0;
    let before = 0;
    while (/\p{Nd}/u.test(String.fromCodePoint(code - before - 1))) before += 1;
    return String(before % 10);
  });
}

/** How the model read a relative date: `next Friday` in a message from a Friday has the offset `P7D`. */
export interface RelativeDate {
  readonly said: string;
  /** ISO 8601 duration of one unit, counted from the day of the message. */
  readonly offset: string;
}

/** The numbers of the date that is so far away from a day: `P1M` tells year and month, `-P3Y` only the year. Empty for an invalid offset. */
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
