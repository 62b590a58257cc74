/**
 * Tests which model of a media tier is called, also while vendors are unhealthy. This is the only one that can take a
 * probe slot.
 */
import { expect, test } from '@jest/globals';
import { createBreakers } from '../../src/failover/breaker.ts';
import { buildCatalog } from '../../src/routing/catalog.ts';
import { type MediaPlanRequest, planMedia } from '../../src/routing/media-plan.ts';
import { callerWith, price, project } from './plans.ts';

const serves = ['images'] as const;
const priced = { kind: 'images', price, maxOutputTokens: null } as const;
const catalog = buildCatalog({
  providers: { first: { dialect: 'chat', serves }, second: { dialect: 'chat', serves }, text: { dialect: 'chat', serves: ['chat'] } },
  models: { 'second/cheap': priced, 'text/image': priced, 'text/prose': { ...priced, kind: 'chat' } },
  tiers: {},
  imageTiers: {
    one: ['first/a', 'second/b'],
    two: ['second/b', 'first/a'],
    mixed: ['text/image', 'first/a', 'second/cheap'],
    gone: ['text/image'],
    prose: ['text/prose'],
  },
});

const ask = (requestedModel: string, more: Partial<MediaPlanRequest> = {}): string =>
  planMedia({
    ...{ catalog, project, source: 'acme', caller: callerWith(null) },
    ...{ route: 'images', catalogFill: true },
    requestedModel,
    ...more,
  }).id;

test('skips models that no provider serves', () => {
  expect(ask('mixed')).toBe('first/a');
});

test('skips models without a price if the price has to be known', () => {
  expect(ask('mixed', { requiresPrice: true })).toBe('second/cheap');
});

test("substitutes models of the same kind only if none of the tier's models is served", () => {
  expect(ask('gone')).toBe('second/cheap');
  expect(() => ask('gone', { catalogFill: false })).toThrow('no models available for route');
  expect(() => ask('prose')).toThrow('no models available for route');
});

test('calls only those models of a tier that the key permits', () => {
  expect(ask('one', { caller: callerWith(['second/b']) })).toBe('second/b');
  expect(() => ask('one', { caller: callerWith(['text/prose']) })).toThrow('model not permitted for this key: one');
});

test("returns no_route if the request doesn't name a model and there is no default model", () => {
  expect(() => ask('', { requestedModel: null })).toThrow(expect.objectContaining({ code: 'no_route' }));
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

test("doesn't use up the probe slot of a model that isn't called", () => {
  const { fail, asked, pass } = setUp();
  fail('second');
  expect(asked('two')).toBe('first/a');
  pass(30_000);
  expect(asked('one')).toBe('first/a');
  expect(asked('two')).toBe('second/b');
  expect(asked('two')).toBe('first/a');
});

test('calls the first model of a tier if all are unhealthy', () => {
  const { fail, asked } = setUp();
  fail('first');
  fail('second');
  expect(asked('one')).toBe('first/a');
  expect(asked('two')).toBe('second/b');
  expect(asked('one', ['first/a'])).toBe('second/b');
  expect(asked('one', ['first', 'second'])).toBe('first/a');
});
