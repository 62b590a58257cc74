/**
 * Detects personal data and payment data. For card numbers, we check the Luhn checksum and the issuer's prefix. For
 * IBANs, we check the country's length and the mod-97 checksum. Takes linear time.
 */
import { findCredentials, maskCredentials } from './credentials.ts';
import { ibanLengths } from './iban-lengths.ts';

export const detectors = {
  credential: (text: string): boolean => findCredentials(text).length > 0,
  card_number: containsCardNumber,
  email: containsEmail,
  phone: (text: string): boolean => phones.some((pattern) => pattern.test(text)),
  iban: containsIban,
} as const;

/**
 * Replaces credentials and personal data with placeholders such as `[email]`. Only for short texts, because some
 * patterns have long lookbehinds.
 */
export function maskPrivateData(text: string): string {
  const withoutEmails = maskCredentials(text).replaceAll(/[\p{L}\p{N}_.+%'-]{1,64}@[\p{L}\p{N}.-]{1,253}/gu, (run) =>
    containsEmail(run) ? '[email]' : run,
  );
  const withoutNumbers = withoutEmails
    .replaceAll(digitGroups, (run) => (containsCardNumber(run) ? '[card_number]' : run))
    .replaceAll(ibanStart, (run) => (containsIban(run) ? '[iban]' : run));
  return phones.reduce((masked, pattern) => masked.replaceAll(new RegExp(pattern, `${pattern.flags}g`), '[phone]'), withoutNumbers);
}

const digitGroups = /(?<![\p{L}\p{N}_]|\p{N}[.,-])\d(?:[ -]?\d){12,22}(?![\p{L}\p{N}_])/gu;
/** Prefixes and lengths of American Express, Diners, Visa, Mastercard, Discover, JCB, Maestro, UnionPay and Mir. */
const cardForm =
  /^(?:3[47]\d{13}|3(?:0[0-5]|095|[689]\d)\d{11,16}|4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:2[2-9]|[3-6]\d|7[01])\d{13}|220[0-4]\d{12,15}|6(?:011|4[4-9]\d|5\d{2})\d{12}|35(?:2[89]|[3-8]\d)\d{12,15}|(?:5[06-8]|6\d)\d{10,17}|62\d{14,17})$/;

function containsCardNumber(text: string): boolean {
  for (const { 0: run } of text.matchAll(digitGroups)) {
    // The match may include digits after the card number, e.g. the expiry date. So if the checksum is wrong, drop the
    // last group of digits and try again.
    for (let rest = run; rest !== ''; rest = rest.replace(/(?:^|[ -])\d+$/, '')) {
      const digits = rest.replace(/[ -]/g, '');
      if (cardForm.test(digits) && passesLuhn(digits)) return true;
    }
  }
  return false;
}

function passesLuhn(digits: string): boolean {
  let sum = 0;
  for (let index = 0; index < digits.length; index += 1) {
    const digit = Number(digits.charAt(digits.length - 1 - index));
    const doubled = index % 2 === 1 ? digit * 2 : digit;
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0 && /[1-9]/.test(digits);
}

/** Starts at the @ sign and looks back from there, so that the expression is only tried once per address. */
const email = /(?<=(?<name>[\p{L}\p{N}_.+%'-]))@(?:[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,62})\.){1,8}(?<top>[\p{L}]{2,24})(?![\p{L}\p{N}_-])/gu;
/** File names that look like addresses, such as `icon@2x.png`. */
const fileEndings = /^(?:png|jpe?g|gif|webp|svg|ico|css|js|ts|tsx|jsx|json|md|ya?ml)$/i;

function containsEmail(text: string): boolean {
  for (const { index, groups = {} } of text.matchAll(email)) {
    const before = text.slice(Math.max(0, index - 4), index);
    // `git@host` is the start of a repository URL, and not an email address.
    if (!fileEndings.test(groups.top ?? '') && !/(?:^|[^\p{L}\p{N}.])git$/u.test(before)) return true;
  }
  return false;
}

const phones: readonly RegExp[] = [
  // International numbers with a plus sign and 7 to 15 digits (E.164).
  /(?<![\p{L}\p{N}+.,-])\+[1-9](?:[ ()./-]{0,2}\d){6,14}(?![\p{L}\p{N}_]|\.\d)/u,
  /\btel:[+\d](?:[ ().-]{0,2}\d){5,14}/i,
  // International numbers that begin with two zeros. They only count if they're written in groups.
  /(?<![\p{L}\p{N}.,:-])00[1-9]\d{0,2}[ ()./-]{1,2}\d(?:[ ()./-]{0,2}\d){5,12}(?![\p{L}\p{N}_])/u,
  // North American numbers.
  /(?<![\p{L}\p{N}.,:-])(?:1[ .-])?(?:\([2-9]\d{2}\) ?|[2-9]\d{2}[ .-])[2-9]\d{2}[ .-]\d{4}(?![\p{L}\p{N}_-])/u,
  // National phone numbers with a leading zero, either as area code and number or in pairs of digits as in France.
  /(?<![\p{L}\p{N}.,:/+-])\(?0[1-9]\d{1,4}\)?[ /-]{1,3}\d{3,9}(?:[ -]\d{2,6}){0,3}(?![\p{L}\p{N}_:/.-])/u,
  /(?<![\p{L}\p{N}.,:/+-])0[1-9](?:[ .]\d{2}){4}(?![\p{L}\p{N}_:/.-])/u,
];

const ibanStart = /(?<![\p{L}\p{N}])(?<country>[A-Z]{2})\d{2}(?:[ -]?[A-Z0-9]){11,30}/giu;

function containsIban(text: string): boolean {
  for (const { 0: run, groups = {} } of text.matchAll(ibanStart)) {
    const characters = run.replace(/[ -]/g, '').toUpperCase();
    const length = ibanLengths[groups.country?.toUpperCase() ?? ''] ?? Number.POSITIVE_INFINITY;
    if (characters.length >= length && remainderOf97(characters.slice(0, length)) === 1) return true;
  }
  return false;
}

/** ISO 7064: The first four characters move to the end, and letters stand for 10 to 35. */
function remainderOf97(iban: string): number {
  let remainder = 0;
  for (const character of iban.slice(4) + iban.slice(0, 4)) {
    const value = Number.parseInt(character, 36);
    remainder = (remainder * (value > 9 ? 100 : 10) + value) % 97;
  }
  return remainder;
}
