/** Tests that the OpenAPI document matches the code, i.e. its routes, and what they accept and return. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { z } from 'zod';
import { describeCommandOperations } from '../../scripts/command-operations.js';
import type { JsonObject } from '../../src/core/json/narrow.ts';
import { asObject, asString, isObject } from '../../src/core/json/narrow.ts';
import { scanObject } from '../../src/core/json/spans.ts';
import { routeCodecs } from '../../src/dialects/routes/route-codecs.ts';
import { parseRulesInput } from '../../src/guardrails/content-rule.ts';
import { describeApi } from '../../src/http/openapi.ts';
import { inferenceRequests, inferenceRoutes } from '../../src/http/routes/inference/operations.ts';
import { provisionRequests } from '../../src/http/routes/provision/request-schemas.ts';
import { memoryRequests } from '../../src/http/shapes/memory-requests.ts';
import { parseGraceSeconds, parseKeyInput } from '../../src/keys/key-input.ts';
import { correctionBody, itemBody, ratingBody, rememberBody, wakeUpBody } from '../../src/memory/items/item-schemas.ts';
import { dryRunRequestSchema } from '../../src/memory/recall/dry-run.ts';
import { defaultMemorySettings, parseMemorySettingsChange } from '../../src/memory/records/settings-schema.ts';
import { graphQuerySchema } from '../../src/memory/search/graph.ts';
import { searchRequestSchema } from '../../src/memory/search/search.ts';
import { parseApplicationChange } from '../../src/projects/application-settings.ts';
import { parseProjectChange } from '../../src/projects/project-settings.ts';
import { isExhaustive } from '../support/exhaustive.ts';
import { fitting, nearlyFitting, resolveRefs } from '../support/schema-values.ts';

const root = join(import.meta.dirname, '../..');
const document = describeApi();
const paths = asObject(document.paths);
/** The number of random bodies for each schema. */
const numRuns = isExhaustive ? 2_000 : 500;

const operations = Object.entries(paths).flatMap(([path, methods]) =>
  Object.entries(asObject(methods)).map(([method, operation]) => ({ path, method, operation: asObject(operation) })),
);

test('describes API version 0.1.0 in the OpenAPI 3.1 format', () => {
  expect(document).toMatchObject({ openapi: '3.1.0', info: { version: '0.1.0' } });
});

test('the generated OpenAPI files are up to date (node scripts/write-openapi.js)', () => {
  expect(JSON.parse(readFileSync(join(root, 'docs/api/openapi.json'), 'utf8'))).toEqual(document);
  expect(JSON.parse(readFileSync(join(root, 'src/cli/api-operations.json'), 'utf8'))).toEqual(describeCommandOperations(document));
});

test('OpenAPI describes exactly the routes of the server', () => {
  const names = readdirSync(join(root, 'src/http/routes'), { encoding: 'utf8', recursive: true }).filter((name) => name.endsWith('.ts'));
  const files = ['src/http/server.ts', ...names.map((name) => `src/http/routes/${name}`)];
  const found = files.flatMap((file) => {
    const base = file.includes('/provision') ? '/provision' : '';
    const text = readFileSync(join(root, file), 'utf8');
    const calls = [
      ...text.matchAll(/\bapp\.(get|put|post|patch|delete)\(\s*'([^']+)'/g),
      ...text.matchAll(/\bchange(?:Project)?\(\s*'(put|post|patch|delete)',\s*'([^']+)'/g),
      ...text.matchAll(/\b(?:read|readProject|streamProject)\(\s*'([^']+)'/g).map(([, path = '']) => ['', 'get', path]),
    ];
    return calls.map(([, method = '', path = '']) => `${method} ${base}${path.replaceAll(/[:*](\w+)/g, '{$1}')}`);
  });
  expect(operations.map(({ method, path }) => `${method} ${path}`).sort()).toEqual([...new Set(found)].sort());
});

test('all OpenAPI references resolve and all components are used', () => {
  const refs = new Set<string>();
  const collect = (value: unknown): void => {
    if (isObject(value) && typeof value.$ref === 'string') refs.add(value.$ref);
    if (typeof value === 'object' && value !== null) for (const part of Object.values(value)) collect(part);
  };
  collect(document);
  const components = Object.entries(asObject(document.components)).filter(([kind]) => kind !== 'securitySchemes');
  const there = components.flatMap(([kind, parts]) => Object.keys(asObject(parts)).map((name) => `#/components/${kind}/${name}`));
  expect([...refs].sort()).toEqual(there.sort());
});

test('each OpenAPI operation has a unique id, security and all path parameters', () => {
  const names = operations.map(({ operation }) => operation.operationId);
  expect(new Set(names).size).toBe(operations.length);
  const schemes = Object.keys(asObject(asObject(document.components).securitySchemes));
  for (const { path, operation } of operations) {
    const parameters = resolveRefs(operation.parameters ?? [], document);
    const inPath = (parameters as JsonObject[]).filter((parameter) => parameter.in === 'path').map(({ name }) => name);
    expect([path, inPath]).toEqual([path, [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)]);
    for (const scheme of operation.security as JsonObject[]) expect(schemes).toEqual(expect.arrayContaining(Object.keys(scheme)));
  }
});

test('OpenAPI describes 401 and 503 for every route that requires a key', () => {
  for (const { path, method, operation } of operations) {
    const statuses = Object.keys(asObject(operation.responses));
    const needsKey = (operation.security as unknown[]).length > 0;
    // A scrape succeeds without the database.
    const keyStatuses = path === '/metrics' ? ['401'] : ['401', '503'];
    const expected = [...(needsKey ? keyStatuses : []), ...(operation.requestBody ? ['400', '413', '415'] : [])];
    expect([method, path, statuses]).toEqual([method, path, expect.arrayContaining(expected)]);
  }
});

describe('the schema of an inference request', () => {
  const any = fc.oneof(
    fc.jsonValue({ maxDepth: 1 }),
    fc.constantFrom<unknown>('', 'auto', 'one/echo', true, false, null, 0, 7, -1.5, [], {}),
  );
  const body = fc.record(
    { model: any, messages: any, stream: any, max_tokens: any, user: any, metadata: any, stream_options: any, input: any },
    { requiredKeys: [] },
  );

  test.each(Object.entries(inferenceRoutes))('accepts the same requests as the gateway for %s', (route, { body: name }) => {
    const schema = inferenceRequests[name];
    const rules = routeCodecs[route as keyof typeof inferenceRoutes]; // A key of that same record.
    const isAccepted = (text: string): boolean => {
      try {
        rules.parseRequest(Buffer.from(text), scanObject(Buffer.from(text)));
        return true;
      } catch {
        return false;
      }
    };
    const near = fc.oneof(body, nearlyFitting(schemaOf(name)), fitting(schemaOf(name)), any);
    let accepted = 0;
    fc.assert(
      fc.property(near, (value) => {
        const text = JSON.stringify(value) ?? '';
        const fits = text !== '' && schema.safeParse(JSON.parse(text)).success;
        if (fits) accepted += 1;
        expect([text, isAccepted(text)]).toEqual([text, fits]);
      }),
      { numRuns },
    );
    expect(accepted).toBeGreaterThan(numRuns / 10);
  });
});

describe('the schema of a provisioning request', () => {
  const now = Date.parse('2026-11-21T00:00:00Z');
  /**
   * Rules that no schema can express: a time in the future, a window that requires its ceiling, and the syntax of an
   * expression.
   */
  const isBeyondSchemas = (message: string): boolean =>
    message
      .split('; ')
      .every((part) =>
        /must be in the future|requires a ceiling named|must be shorter than|is not a valid RE2 expression|matches the empty string/.test(
          part,
        ),
      );

  test.each<[string, z.ZodType, (body: unknown) => unknown]>([
    ['ProjectBody', provisionRequests.ProjectBody, (body) => parseProjectChange('acme', body)],
    ['KeyBody', provisionRequests.KeyBody, (body) => parseKeyInput(body, now)],
    ['RotateBody', provisionRequests.RotateBody, parseGraceSeconds],
    ['ApplicationBody', provisionRequests.ApplicationBody, (body) => parseApplicationChange('bot', body)],
    ['RulesBody', provisionRequests.RulesBody, parseRulesInput],
    [
      'MemorySettingsBody',
      published('MemorySettingsBody'),
      (body) => parseMemorySettingsChange(body)({ ...defaultMemorySettings, pending_deletion: null }),
    ],
    ['MemoryItemBody', published('MemoryItemBody'), (body) => itemBody.parse(body)],
    ['MemoryCorrectionBody', published('MemoryCorrectionBody'), (body) => correctionBody.parse(body)],
    ['MemoryRatingBody', published('MemoryRatingBody'), (body) => ratingBody.parse(body)],
    ['MemoryRememberBody', published('MemoryRememberBody'), (body) => rememberBody.parse(body)],
    ['MemoryWakeUpBody', published('MemoryWakeUpBody'), (body) => wakeUpBody.parse(body)],
    ['MemorySearchBody', published('MemorySearchBody'), (body) => searchRequestSchema.parse(body)],
    ['MemoryRecallBody', published('MemoryRecallBody'), (body) => dryRunRequestSchema.parse(body)],
    ['MemoryGraphBody', published('MemoryGraphBody'), (body) => graphQuerySchema.parse(body)],
  ])('accepts the same bodies as the gateway for %s', (name, schema, read) => {
    const refusal = (body: unknown): string | null => {
      try {
        read(body);
        return null;
      } catch (error) {
        return asString(asObject(error).message) ?? 'refused';
      }
    };
    let accepted = 0;
    fc.assert(
      fc.property(fc.oneof(fitting(schemaOf(name)), nearlyFitting(schemaOf(name))), (value) => {
        const text = JSON.stringify(value) ?? 'null';
        const body: unknown = JSON.parse(text);
        const message = refusal(body);
        if (message === null) accepted += 1;
        // Portable patterns can't describe lone surrogates.
        if (/\\ud[89a-f]/.test(text)) return;
        if (message === null || !isBeyondSchemas(message)) expect([text, message === null]).toEqual([text, schema.safeParse(body).success]);
      }),
      { numRuns },
    );
    expect(accepted).toBeGreaterThan(numRuns / 20);
  });
});

test('memory requests accept null for every optional member', () => {
  const { MemoryItemBody, MemoryCorrectionBody, MemorySearchBody, MemoryRememberBody, MemoryWakeUpBody, MemoryGraphBody } = memoryRequests;
  const objects = [
    MemoryItemBody,
    MemoryCorrectionBody,
    MemorySearchBody,
    ...[MemoryRememberBody, MemoryWakeUpBody, MemoryGraphBody].map((body) => body.unwrap().out),
  ];
  const optional = objects
    .flatMap(({ shape }) => Object.entries<z.ZodType>(shape))
    .filter(([, member]) => member.safeParse(undefined).success);
  expect(optional.length).toBeGreaterThan(10);
  expect(optional.filter(([, member]) => !member.safeParse(null).success).map(([name]) => name)).toEqual([]);
});

/** The schema as clients read it. */
function published(name: string): z.ZodType {
  return z.fromJSONSchema(asObject(schemaOf(name)));
}

function schemaOf(name: string): unknown {
  return resolveRefs({ $ref: `#/components/schemas/${name}` }, document);
}
