/** Creates random values for the JSON schemas in the OpenAPI document. They are either valid or nearly valid. */
import fc from 'fast-check';
import type { JsonObject } from '../../src/core/json/narrow.ts';
import { asArray, asObject, asString, isObject } from '../../src/core/json/narrow.ts';

/** Returns the schema with all references to `document` resolved. Our references aren't recursive. */
export function resolveRefs(schema: unknown, document: JsonObject): unknown {
  if (Array.isArray(schema)) return schema.map((part) => resolveRefs(part, document));
  if (!isObject(schema)) return schema;
  const ref = asString(schema.$ref);
  if (ref !== null) {
    const target = ref
      .slice(2)
      .split('/')
      .reduce<unknown>((at, key) => asObject(at)[key], document);
    if (target === undefined) throw new Error(`the document has nothing at ${ref}`);
    return resolveRefs(target, document);
  }
  return Object.fromEntries(Object.entries(schema).map(([key, part]) => [key, resolveRefs(part, document)]));
}

/** Generates valid values. `hints` has better values for certain field names, e.g. models that exist. */
export function fitting(schema: unknown, hints: Readonly<Record<string, fc.Arbitrary<unknown>>> = {}): fc.Arbitrary<unknown> {
  const parts = asObject(schema);
  if (Array.isArray(parts.anyOf)) return fc.oneof(...parts.anyOf.map((part) => fitting(part, hints)));
  if (Array.isArray(parts.enum)) return fc.constantFrom(...parts.enum);
  if (parts.const !== undefined) return fc.constant(parts.const);
  if (Array.isArray(parts.type)) return fc.oneof(...parts.type.map((type) => fitting({ ...parts, type }, hints)));
  switch (parts.type) {
    case 'object':
      return fittingObject(parts, hints);
    case 'array':
      return fc.array(fitting(parts.items, hints), { maxLength: 4 });
    case 'string':
      return fittingText(parts);
    case 'integer':
      return fc.integer({ min: smallest(parts.minimum), max: largest(parts.maximum) });
    case 'number':
      return fc.oneof(
        fc.integer({ min: smallest(parts.minimum), max: largest(parts.maximum) }),
        fc.double({ min: smallest(parts.minimum), max: largest(parts.maximum), noNaN: true }),
      );
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    default:
      return fc.jsonValue({ maxDepth: 2 });
  }
}

/**
 * Generates values that are valid except for one place, where there's an arbitrary value, a missing field or an
 * additional field.
 */
export function nearlyFitting(schema: unknown, hints: Readonly<Record<string, fc.Arbitrary<unknown>>> = {}): fc.Arbitrary<unknown> {
  return fc.tuple(fitting(schema, hints), fc.nat(), odd).map(([value, place, other]) => change(value, place, other));
}

const odd = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    0,
    -1,
    1.5,
    1e308,
    '',
    ' ',
    'a'.repeat(400),
    '\u0000',
    '\ud800',
    [],
    {},
    [[[[[[]]]]]],
    '../../etc',
    "' or 1=1",
  ),
  fc.jsonValue({ maxDepth: 2 }),
  fc.constant(undefined),
);

/** Replaces what is at `place` in the value by `other`, or removes it if `other` is undefined. */
function change(value: unknown, place: number, other: unknown): unknown {
  if (Array.isArray(value)) {
    const index = place % (value.length + 1);
    const rest = Math.floor(place / (value.length + 1));
    return index === value.length ? other : value.map((item, at) => (at === index ? change(item, rest, other) : item));
  }
  if (!isObject(value)) return other;
  const keys = Object.keys(value);
  const index = place % (keys.length + 2);
  const rest = Math.floor(place / (keys.length + 2));
  if (index === keys.length) return { ...value, [`x${rest % 7}`]: other };
  if (index > keys.length) return other;
  return Object.fromEntries(Object.entries(value).map(([key, item], at) => [key, at === index ? change(item, rest, other) : item]));
}

function fittingObject(parts: JsonObject, hints: Readonly<Record<string, fc.Arbitrary<unknown>>>): fc.Arbitrary<unknown> {
  const properties = Object.entries(asObject(parts.properties)).map(
    ([key, schema]) => [key, hints[key] ?? fitting(schema, hints)] as const,
  );
  const required = asArray(parts.required).filter((key) => typeof key === 'string');
  const own = fc.record(Object.fromEntries(properties), { requiredKeys: required });
  const further = parts.additionalProperties;
  if (!isObject(further)) return own;
  const names =
    parts.propertyNames === undefined ? fc.string({ maxLength: 8 }).map((name) => `x-${name}`) : fittingText(asObject(parts.propertyNames));
  return fc.tuple(fc.dictionary(names, fitting(further, hints), { maxKeys: 3 }), own).map(([more, value]) => ({ ...more, ...value }));
}

function fittingText({ pattern, format, minLength, maxLength }: JsonObject): fc.Arbitrary<string> {
  const min = typeof minLength === 'number' ? minLength : 0;
  const max = typeof maxLength === 'number' ? maxLength : 30;
  const fits = (text: string): boolean => text.length >= min && text.length <= max;
  if (format === 'date-time')
    return fc.date({ min: new Date('2000-01-01'), max: new Date('2100-01-01'), noInvalidDate: true }).map((date) => date.toISOString());
  if (format === 'uuid') return fc.uuid();
  if (typeof pattern === 'string') {
    // fast-check doesn't support lookaheads, so we remove them and filter out the strings that they forbid.
    const whole = new RegExp(pattern);
    return fc.stringMatching(new RegExp(pattern.replaceAll(/\(\?![^)]*\)/g, ''))).filter((text) => fits(text) && whole.test(text));
  }
  return fc.string({ unit: 'grapheme', minLength: min, maxLength: Math.min(max, 30) }).filter(fits);
}

function smallest(bound: unknown): number {
  return typeof bound === 'number' ? bound : -1e9;
}

function largest(bound: unknown): number {
  return typeof bound === 'number' ? bound : 1e9;
}
