/** Tests that it makes no difference for the result if a part of a prompt is already known. */
import { expect, test } from '@jest/globals';
import type { PromptRoute } from '../../../src/core/call.ts';
import { countNewBytes, repeatedPartsOf } from '../../../src/core/repeated-parts.ts';
import { bodyKeys, hidesAscii, scanJson } from '../../../src/dialects/json/body-members.ts';
import { knownRegionsOf } from '../../../src/dialects/json/known-regions.ts';
import { measureInput } from '../../../src/dialects/routes/input-size.ts';
import { mentionsCacheControl, refersElsewhere } from '../../../src/dialects/routes/outside-input.ts';
import { createKnownPrompts } from '../../../src/memory/conversations/known-prompts.ts';
import { bodiesOf, createRandom, longJson, type Random } from './sessions.ts';

/** Returns what a request needs to know about its body. If the body is rejected, returns the reason. */
function factsOf(body: Buffer, route: PromptRoute, scan: () => object): unknown {
  try {
    return {
      spans: scan(),
      size: measureInput(body),
      refersElsewhere: refersElsewhere(body, route),
      hidesAscii: hidesAscii(body),
      mentionsCacheControl: mentionsCacheControl(body),
    };
  } catch (error) {
    return String(error);
  }
}

/** Changes or removes a random byte. */
function damage(body: Buffer, random: Random): Buffer {
  const at = random(body.length);
  const bytes = random(2) === 0 ? [] : ['"', ',', ' ', '}', ']', '{', '\\', '\0', '1'].slice(random(9)).slice(0, 1);
  return Buffer.concat([body.subarray(0, at), Buffer.from(bytes.join('')), body.subarray(at + 1)]);
}

test.each(['chat', 'messages', 'responses'] as const)(
  'scans %s sessions with the same result even if earlier prompts are known',
  (route) => {
    let known = 0;
    let refused = 0;
    for (let seed = 1; seed <= 60; seed += 1) {
      const random = createRandom(seed);
      const knownPrompts = createKnownPrompts();
      for (const session of bodiesOf(random, route)) {
        const whole = Buffer.from(longJson(session));
        for (const bytes of [whole, damage(whole, random), damage(whole, random), whole]) {
          const body = Buffer.from(bytes);
          const found = factsOf(body, route, () => knownPrompts.scan('p', route, body));
          known += knownRegionsOf(body).length;
          const expected = factsOf(bytes, route, () => scanJson(bytes, bodyKeys));
          if (typeof expected === 'string') refused += 1;
          expect([seed, found]).toEqual([seed, expected]);
        }
      }
    }
    expect(known).toBeGreaterThan(500);
    expect(refused).toBeGreaterThan(100);
  },
);

test.each([0, 10, 20, 21])('detects an escaped ASCII letter in message %i of a session', (escaped) => {
  const knownPrompts = createKnownPrompts();
  const texts = Array.from({ length: 21 }, (_, n) => `${n} `.repeat(500) + (n === escaped ? 'web_search' : ''));
  const found = [20, 20, 21].map((length) => {
    const messages = texts.slice(0, length).map((content) => ({ role: 'user', content }));
    const body = Buffer.from(JSON.stringify({ model: 'a/b', messages }).replace('web_search', '\\u0077eb_search'));
    knownPrompts.scan('p', 'chat', body);
    return [knownRegionsOf(body).length, hidesAscii(body)];
  });
  const isIn = (length: number): boolean => escaped < length;
  expect(found).toEqual([
    [0, isIn(20)],
    [1, isIn(20)],
    [1, isIn(21)],
  ]);
});

test("doesn't reuse one project's prompts for another", () => {
  const knownPrompts = createKnownPrompts();
  const messages = Array.from({ length: 20 }, (_, n) => ({ role: 'user', content: `${n} `.repeat(500) }));
  const knownOf = (project: string): number => {
    const body = Buffer.from(JSON.stringify({ model: 'a/b', messages }));
    knownPrompts.scan(project, 'chat', body);
    return knownRegionsOf(body).length;
  };
  expect([knownOf('one'), knownOf('one'), knownOf('two')]).toEqual([0, 1, 0]);
});

test('counts only the new bytes of a growing prompt and marks the parts that may be repeated', () => {
  const knownPrompts = createKnownPrompts();
  const messages = Array.from({ length: 20 }, (_, n) => ({ role: 'user', content: `${n} `.repeat(500) }));
  const tools = [{ type: 'function', function: { name: 'read', description: 'Reads a file. '.repeat(200) } }];
  const added = { role: 'user', content: 'new '.repeat(300) };
  const scan = (list: readonly object[]): Buffer => {
    const body = Buffer.from(JSON.stringify({ model: 'a/b', tools, messages: list }));
    knownPrompts.scan('p', 'chat', body);
    return body;
  };
  const first = scan(messages);
  expect(countNewBytes(first)).toBe(first.length);
  const second = scan([...messages, added]);
  const addedBytes = JSON.stringify(added).length;
  expect(countNewBytes(second)).toBeGreaterThan(addedBytes);
  expect(countNewBytes(second)).toBeLessThan(addedBytes + 200);
  const fingerprints = new Set(repeatedPartsOf(first).map(({ start, end, fingerprint }) => `${end - start} ${fingerprint}`));
  const shared = repeatedPartsOf(second).filter(({ start, end, fingerprint }) => fingerprints.has(`${end - start} ${fingerprint}`));
  const covered = Math.max(...shared.map(({ end }) => end)) - Math.min(...shared.map(({ start }) => start));
  expect(covered).toBeGreaterThan(first.length - 200);
  for (const { start, end } of shared) expect(first.includes(second.subarray(start, end))).toBe(true);
});
