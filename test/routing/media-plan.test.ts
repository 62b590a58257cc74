/**
 * Tests which model of a media tier is called while vendors are unhealthy. This is the only one that can take a probe
 * slot.
 */
import { expect, test } from '@jest/globals';
import { createBreakers } from '../../src/failover/breaker.ts';
import { buildCatalog } from '../../src/routing/catalog.ts';
import { planMedia } from '../../src/routing/media-plan.ts';
import { callerWith, project } from './plans.ts';

const serves = ['images'] as const;
const catalog = buildCatalog({
  providers: { first: { dialect: 'chat', serves }, second: { dialect: 'chat', serves } },
  models: {},
  tiers: {},
  imageTiers: { one: ['first/a', 'second/b'], two: ['second/b', 'first/a'] },
});

function setUp() {
  let now = 0;
  const breakers = createBreakers({ now: () => now });
  const fail = (provider: string): void => {
    for (let n = 0; n < 5; n += 1) breakers.recordFailure('acme', provider);
  };
  const asked = (requestedModel: string, retired: readonly string[] = []): string => {
    const request = {
      catalog,
      source: 'acme',
      caller: callerWith(null),
      route: 'images',
      catalogFill: false,
      requestedModel,
      breakers,
    } as const;
    return planMedia({ ...request, project: { ...project, retired } }).id;
  };
  const pass = (ms: number): void => {
    now += ms;
  };
  return { fail, asked, pass };
}

test("doesn't take probe slots for models after the chosen one", () => {
  const { fail, asked, pass } = setUp();
  fail('second');
  expect(asked('two')).toBe('first/a');
  pass(30_000);
  expect(asked('one')).toBe('first/a');
  expect(asked('two')).toBe('second/b');
  expect(asked('two')).toBe('first/a');
});

test('calls the first model if all are unhealthy', () => {
  const { fail, asked } = setUp();
  fail('first');
  fail('second');
  expect(asked('one')).toBe('first/a');
  expect(asked('two')).toBe('second/b');
  expect(asked('one', ['first/a'])).toBe('second/b');
  expect(asked('one', ['first', 'second'])).toBe('first/a');
});
