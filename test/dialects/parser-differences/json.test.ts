/**
 * The gateway forwards bodies byte by byte, and the vendor's parser may read them in a different way than ours. These
 * tests make sure that the content rules check everything that any parser might read, and that the upper bounds count
 * it.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import type { TextRoute } from '../../../src/core/call.ts';
import type { Candidate } from '../../../src/core/candidate.ts';
import { tokenCost } from '../../../src/core/cost.ts';
import { GatewayError } from '../../../src/core/errors.ts';
import { newId } from '../../../src/core/ids.ts';
import { type BodySpans, scanObject } from '../../../src/core/json/spans.ts';
import { JsonSyntaxError } from '../../../src/core/json/syntax.ts';
import { noTokens, type Price } from '../../../src/core/pricing.ts';
import { bodyKeys } from '../../../src/dialects/json/body-members.ts';
import { routeCodecs } from '../../../src/dialects/routes/route-codecs.ts';
import { readRequestTexts } from '../../../src/dialects/routes/rule-texts.ts';
import { compileRules, evaluateTexts } from '../../../src/guardrails/rules.ts';
import { backgroundCaller, buildInternalCall } from '../../../src/pipeline/call/internal-call.ts';
import { usageBounds } from '../../../src/pipeline/call/usage-bounds.ts';
import { isExhaustive } from '../../support/exhaustive.ts';
import { createRandom } from '../../support/random.ts';
import { type JsonBody, secretNumber, secretText, writeJsonBody } from './json-bodies.ts';
import { type LenientValue, parseLenient, textsOf } from './lenient-json.ts';
import { readWithPython } from './python-readings.ts';

const bodies = isExhaustive ? 8_000 : 2_000;

const { input: rules } = compileRules(
  (['email', 'card_number'] as const).map((ruleClass) => ({ class: ruleClass, place: 'input', action: 'block' })),
);
if (!rules) throw new Error('no rules');

/** Only output has a price, so we can tell from the cost bound how many output tokens the gateway counted. */
const price: Price = { inputNanos: 0n, cachedInputNanos: 0n, cacheWriteNanos: 0n, cacheWrite1hNanos: 0n, outputNanos: 1_000_000n };
const candidate: Candidate = { id: 'one/echo', provider: 'one', model: 'echo', price, dialect: 'chat', maxOutputTokens: 1_000_000 };

const template = buildInternalCall({
  ...{ id: newId(0), route: 'chat', caller: backgroundCaller('one'), slug: 'one', model: 'one/echo', members: {}, timeoutMs: 1, now: 0 },
});

/** The gateway either rejects a body, or checks it against the rules and reserves its cost. */
type Handling = { readonly isRefused: true } | { readonly isRefused: false; readonly isBlocked: boolean; readonly costNanos: number };

async function handle({ route, bytes }: JsonBody): Promise<Handling> {
  let texts: readonly string[];
  let spans: BodySpans;
  let maxOutputTokens: number | null;
  try {
    spans = scanObject(bytes, bodyKeys);
    maxOutputTokens = routeCodecs[route].parseRequest(bytes, spans).maxOutputTokens;
    texts = readRequestTexts(bytes);
  } catch (error) {
    if (error instanceof JsonSyntaxError || (error instanceof GatewayError && error.status === 400)) return { isRefused: true };
    throw error;
  }
  if (!rules) throw new Error('no rules');
  const { blockedBy } = await evaluateTexts(rules, texts, { project: 'one' });
  const { costNanos } = usageBounds({ ...template, route, body: bytes, spans, maxOutputTokens }, [candidate]);
  return { isRefused: false, isBlocked: blockedBy !== null, costNanos };
}

/** What a parser read from a body. `limits` has all top-level numbers by name. */
interface Reading {
  readonly parser: string;
  readonly texts: readonly string[];
  readonly limits: ReadonlyMap<string, unknown>;
}

function toReading(parser: string, value: LenientValue): Reading {
  const limits =
    value instanceof Map ? [...value].flatMap(([key, member]) => (isNumber(member) ? [[key, member.number] as const] : [])) : [];
  return { parser, texts: textsOf(value), limits: new Map(limits) };
}

function isNumber(value: LenientValue): value is { readonly number: string } {
  return typeof value === 'object' && value !== null && 'number' in value;
}

/** Decodes the body with each encoding that parsers might guess. */
function decodings(bytes: Buffer): string[] {
  return [bytes.toString('utf8'), bytes.toString('latin1'), bytes.toString('utf16le')];
}

function readAll({ bytes }: JsonBody): Reading[] {
  const strict = (['first', 'last'] as const).flatMap((duplicates) =>
    [false, true].map((ignoreCase) => ({
      duplicates,
      ignoreCase,
      parser: `lenient, ${duplicates} wins${ignoreCase ? ', ignores case' : ''}`,
    })),
  );
  return decodings(bytes).flatMap((text) =>
    strict.flatMap(({ parser, ...options }) => {
      try {
        return [toReading(parser, parseLenient(text, options))];
      } catch {
        return [];
      }
    }),
  );
}

/** Reports whether the text contains the secret. Invisible characters are ignored, because some parsers drop them. */
function hasSecret(text: string): boolean {
  const visible = text.replace(/[\p{Cc}\p{Cs}\p{Default_Ignorable_Code_Point}\ufffd]/gu, '');
  return visible.includes(secretText) || visible.replace('.', '').includes(secretNumber);
}

/** The fields that limit the output on each route. Vendors ignore all other fields. */
const limitNames: Readonly<Record<string, readonly string[]>> = {
  chat: ['max_tokens', 'max_completion_tokens', 'n'],
  messages: ['max_tokens'],
  responses: ['max_output_tokens'],
};

/** Returns the cost of the most output that the vendor can generate if it reads these limits. */
function costOfLimit({ limits }: Reading, route: TextRoute): number {
  const numberOf = (name: string): number => {
    const value = limitNames[route]?.includes(name) ? Number(limits.get(name)) : 0;
    return Number.isSafeInteger(value) && value > 0 ? value : 0;
  };
  const max = Math.max(...['max_tokens', 'max_completion_tokens', 'max_output_tokens'].map(numberOf));
  return tokenCost({ ...noTokens, output: Math.min(max, 1_000_000) * Math.max(1, numberOf('n')) }, price);
}

describe('JSON bodies that parsers read differently', () => {
  const unchecked: string[] = [];
  const uncounted: string[] = [];
  let blocked = 0;

  beforeAll(async () => {
    const random = createRandom(34);
    const written = Array.from({ length: bodies }, () => writeJsonBody(random, true));
    const python = await readWithPython(written.map(({ bytes }) => ({ kind: 'json', body: bytes })));
    for (const [index, body] of written.entries()) {
      const handling = await handle(body);
      if (handling.isRefused) continue;
      if (handling.isBlocked) blocked += 1;
      const { texts = [], limits = [] } = python[index] ?? {};
      const readings: Reading[] = [
        ...readAll(body),
        { parser: 'python', texts, limits: new Map() },
        ...limits.map((members) => ({ parser: 'python', texts: [], limits: new Map(Object.entries(members)) })),
      ];
      const reader = readings.find((reading) => !handling.isBlocked && reading.texts.some(hasSecret));
      if (reader) unchecked.push(`${reader.parser}: ${body.how}`);
      const spender = readings.find((reading) => costOfLimit(reading, body.route) > handling.costNanos);
      if (spender) uncounted.push(`${spender.parser}: ${body.how}`);
    }
  });

  test('content rules check every JSON string that any parser might read', () => {
    expect(unchecked).toEqual([]);
  });

  test('the token reservation covers every token limit that any JSON parser might read', () => {
    expect(uncounted).toEqual([]);
  });

  test("rules can block many ambiguous JSON bodies that aren't rejected outright", () => {
    expect(blocked).toBeGreaterThan(bodies / 5);
  });
});

test("doesn't reject or block ordinary JSON bodies", async () => {
  const random = createRandom(7);
  for (let count = 0; count < 300; count += 1) {
    const body = writeJsonBody(random, false);
    const isOrdinary = !/0100|0x100|1e400|"9000"|(?<name>max\w+)".*\k<name>"|\\u005f/.test(body.how);
    const handling = await handle(body);
    if (isOrdinary) expect([body.how, handling]).toEqual([body.how, expect.objectContaining({ isRefused: false, isBlocked: false })]);
  }
});
