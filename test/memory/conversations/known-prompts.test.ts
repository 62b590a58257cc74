/** Tests that a request with a partly known prompt is read as if nothing about it were known. */
import { expect, test } from '@jest/globals';
import type { PromptRoute } from '../../../src/core/call.ts';
import { bodyKeys } from '../../../src/dialects/json/body-members.ts';
import { knownRegionsOf } from '../../../src/dialects/json/known-regions.ts';
import { scanJson } from '../../../src/dialects/json/scan-body.ts';
import { measureInput } from '../../../src/dialects/routes/input-size.ts';
import { refersElsewhere } from '../../../src/dialects/routes/outside-input.ts';
import { createKnownPrompts } from '../../../src/memory/conversations/known-prompts.ts';
import { bodiesOf, createRandom, longJson, type Random } from './sessions.ts';

/** Returns what a request needs to know about its body, or why it is rejected. */
function factsOf(body: Buffer, route: PromptRoute, scan: () => object): unknown {
  try {
    return { spans: scan(), size: measureInput(body), refersElsewhere: refersElsewhere(body, route) };
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

test.each(['chat', 'messages', 'responses'] as const)('masks %s sessions the same with and without known prompts', (route) => {
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
});

test("doesn't share known texts between projects", () => {
  const knownPrompts = createKnownPrompts();
  const messages = Array.from({ length: 20 }, (_, n) => ({ role: 'user', content: `${n} `.repeat(500) }));
  const knownOf = (project: string): number => {
    const body = Buffer.from(JSON.stringify({ model: 'a/b', messages }));
    knownPrompts.scan(project, 'chat', body);
    return knownRegionsOf(body).length;
  };
  expect([knownOf('one'), knownOf('one'), knownOf('two')]).toEqual([0, 1, 0]);
});
