/**
 * Generates random JSON like people and libraries write it, with white space in any place, escaped keys, unusual
 * numbers and deep nesting.
 */
import fc from 'fast-check';

/** The text of a value. `JSON.parse` defines its meaning. */
export type JsonText = string;

const space = fc.string({ unit: fc.constantFrom(' ', '\n', '\r', '\t'), maxLength: 3 });

/** One character of a string literal, plain or needlessly escaped. */
const character = fc.oneof(
  { weight: 6, arbitrary: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }).map((text) => JSON.stringify(text).slice(1, -1)) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      '\\/',
      '\\b',
      '\\f',
      '\\n',
      '\\r',
      '\\t',
      '\\"',
      '\\\\',
      '\\u0041',
      '\\u00e9',
      '\\uD83d\\ude00',
      '\\ud800',
      '\\u0000',
      '/',
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
    ),
  },
);

const stringText: fc.Arbitrary<JsonText> = fc.array(character, { maxLength: 8 }).map((characters) => `"${characters.join('')}"`);

const numberText: fc.Arbitrary<JsonText> = fc.oneof(
  fc.constantFrom('0', '-0', '1.0', '1e5', '1E+2', '1e-7', '-0.0e-0', '12345678901234567890', '0.1e1', '1E400'),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => JSON.stringify(number)),
  fc.bigInt().map(String),
);

const scalarText: fc.Arbitrary<JsonText> = fc.oneof(stringText, numberText, fc.constantFrom('true', 'false', 'null'));

/** Joins `open`, the parts with commas and random white space between them, and `close`. */
function container(open: string, close: string, part: fc.Arbitrary<string>): fc.Arbitrary<JsonText> {
  return fc.tuple(space, fc.array(fc.tuple(part, space, space), { maxLength: 4 })).map(([first, parts]) => {
    const inner = parts.map(([text, before, after], index) => `${text}${before}${index < parts.length - 1 ? `,${after}` : ''}`);
    return `${open}${first}${inner.join('')}${close}`;
  });
}

function memberText(key: fc.Arbitrary<JsonText>, value: fc.Arbitrary<JsonText>): fc.Arbitrary<string> {
  return fc.tuple(key, space, space, value).map(([name, before, after, text]) => `${name}${before}:${after}${text}`);
}

const { value, object } = fc.letrec<{ value: JsonText; object: JsonText; array: JsonText }>((tie) => ({
  value: fc.oneof({ maxDepth: 5 }, scalarText, tie('object'), tie('array')),
  object: container('{', '}', memberText(stringText, tie('value'))),
  array: container('[', ']', tie('value')),
}));

export const valueText = value;

/** An object with white space around it. */
export const objectText: fc.Arbitrary<JsonText> = fc.tuple(space, object, space).map((parts) => parts.join(''));

/** Ways to write one key: plain, and with some of its letters escaped. */
export function keyText(key: string): fc.Arbitrary<JsonText> {
  return fc.array(fc.boolean(), { minLength: key.length, maxLength: key.length }).map((escaped) => {
    const letters = [...key].map((letter, index) => (escaped[index] ? `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}` : letter));
    return `"${letters.join('')}"`;
  });
}

/** An object with `members` (key -> text of the value) and some others whose keys start with `x`, in random order. */
export function objectWith(members: Readonly<Record<string, fc.Arbitrary<JsonText>>>): fc.Arbitrary<JsonText> {
  const known = Object.entries(members).map(([key, text]) => memberText(keyText(key), text));
  const others = fc.array(
    memberText(
      stringText.map((text) => `"x${text.slice(1)}`),
      value,
    ),
    { maxLength: 3 },
  );
  return fc
    .tuple(
      fc.tuple(...known),
      others,
      fc.array(fc.tuple(space, space), { minLength: known.length + 3, maxLength: known.length + 3 }),
      fc.nat(),
    )
    .map(([own, more, spaces, seed]) => {
      const all = [...own, ...more];
      const turned = all.map((_, index) => all[(index + seed) % all.length] ?? '');
      const inner = turned.map((text, index) => `${spaces[index]?.[0] ?? ''}${text}${spaces[index]?.[1] ?? ''}`);
      return `{${inner.join(',')}}`;
    });
}
