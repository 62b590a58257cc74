import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { detectors } from '../../src/guardrails/content-classes.ts';
import { isExhaustive } from '../support/exhaustive.ts';

test.each([
  ['card_number', '4111 1111 1111 1111'],
  ['card_number', 'Card: 5555-5555-5555-4444, please'],
  ['card_number', '378282246310005'],
  ['card_number', '30569309025904'],
  ['card_number', '6011111111111117 12/29 123'],
  ['card_number', 'pay with 4242 4242 4242 4242 12 29'],
  ['email', 'write to ada.lovelace+x@mail.example.co.uk.'],
  ['email', '<jürgen@müller.example>'],
  ['phone', 'call +49 (0)30 1234567'],
  ['phone', '+14155552671'],
  ['phone', '(415) 555-2671'],
  ['phone', '415-555-2671'],
  ['phone', '1 415 555 2671'],
  ['phone', '0049 30 1234567'],
  ['phone', '030 1234567'],
  ['phone', '0171/2345678'],
  ['phone', '01 23 45 67 89'],
  ['phone', 'tel:0301234567'],
  ['iban', 'DE89 3704 0044 0532 0130 00'],
  ['iban', 'IBAN GB82WEST12345698765432 BIC XYZ'],
  ['iban', 'fr14 2004 1010 0505 0001 3M02 606 and more text'],
  ['credential', 'password=hunter2x'],
] as const)('finds %s in: %s', (ruleClass, text) => {
  expect(detectors[ruleClass](text)).toBe(true);
});

test.each([
  ['card_number', '4111 1111 1111 1112'],
  ['card_number', 'order 1234567890123456 of 2026-11-21'],
  ['card_number', '0000 0000 0000 0000'],
  ['card_number', 'id 550e8400-e29b-41d4-a716-446655440000, 1763678400000'],
  ['card_number', '41111111111111111111111111111111'],
  ['card_number', 'x4111111111111111'],
  ['email', 'git@github.com:acme/app.git icon@2x.png @scope/name user@localhost name@latest'],
  ['email', 'meet @ noon, a @ b.c'],
  ['phone', '2026-11-21 10:00:00, 1763678400, version 1.2.3, 10.0.0.1, 4111111111111111'],
  ['phone', '3.14159265358979, +1, -5, 007, 0123456789abcdef, 01/02/2026, 00:15:30'],
  ['phone', 'ISBN 978-3-16-148410-0; 550e8400-e29b-41d4-a716-446655440000'],
  ['iban', 'DE89 3704 0044 0532 0130 01'],
  ['iban', 'AB12 3456 7890 1234 5678 90'],
  ['iban', 'in 12 months we will have seen 3 of 4 parts'],
] as const)("doesn't find %s in: %s", (ruleClass, text) => {
  expect(detectors[ruleClass](text)).toBe(false);
});

test('recognizes card numbers by their check digit, however they are grouped', () => {
  const digits = fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 14, maxLength: 14 });
  fc.assert(
    fc.property(digits, fc.constantFrom('', ' ', '-'), (middle, between) => {
      const start = `4${middle.join('')}`;
      const complete = Array.from({ length: 10 }, (_, last) => start + last).filter((number) =>
        detectors.card_number((number.match(/\d{4}/g) ?? []).join(between)),
      );
      expect(complete).toHaveLength(1);
    }),
  );
});

test("doesn't recognize an IBAN with one changed character", () => {
  fc.assert(
    fc.property(fc.integer({ min: 4, max: 21 }), fc.integer({ min: 1, max: 9 }), (place, more) => {
      const iban = 'DE89370400440532013000';
      const changed = (Number(iban.charAt(place)) + more) % 10;
      expect(detectors.iban(iban.slice(0, place) + changed + iban.slice(place + 1))).toBe(false);
    }),
  );
});

/** With quadratic time these would take hours. */
const mib = 1024 * 1024;
const longMib = isExhaustive ? 4 : 1;
test.each(['4', '4 ', '4111-', 'a@', '@a.', 'a.', '+1', '+1 ', '0', '01 ', '(415) ', 'DE89', 'DE89 ', 'D', '1.'].map((unit) => [unit]))(
  `scans ${longMib} MiB of %j in linear time`,
  (unit) => {
    const text = unit.repeat(Math.ceil((longMib * mib) / unit.length));
    for (const find of Object.values(detectors)) expect(() => find(text)).not.toThrow();
  },
);
