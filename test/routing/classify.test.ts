import { describe, expect, test } from '@jest/globals';
import type { TextRoute } from '../../src/core/call.ts';
import { scanObject } from '../../src/core/json/spans.ts';
import type { RequestFeatures } from '../../src/dialects/routes/request-features.ts';
import { buildCatalog } from '../../src/routing/catalog.ts';
import type { AutoTier, Classifier, Complete, CompletionRequest } from '../../src/routing/classify.ts';
import { chooseTier, classify, classifyByModel } from '../../src/routing/classify.ts';
import type { ProjectRouting } from '../../src/routing/rules.ts';
import { project } from './plans.ts';

const all: readonly AutoTier[] = ['trivial', 'standard', 'strong'];
const small: RequestFeatures = { inputBytes: 200, messages: 1, hasTools: false, hasImages: false, hasCode: false };

describe('the classifier rules', () => {
  test.each<[string, Partial<RequestFeatures>, AutoTier]>([
    ['a short question', {}, 'trivial'],
    ['a text of 1 KiB', { inputBytes: 1_024 }, 'trivial'],
    ['a text above 1 KiB', { inputBytes: 1_025 }, 'standard'],
    ['three messages', { messages: 3 }, 'trivial'],
    ['a longer conversation', { messages: 4 }, 'standard'],
    ['a short text with tools', { hasTools: true }, 'standard'],
    ['a short text with an image', { hasImages: true }, 'standard'],
    ['a short text with code', { hasCode: true }, 'standard'],
    ['code with tools', { hasCode: true, hasTools: true }, 'strong'],
    ['code with tools and an image', { hasCode: true, hasTools: true, hasImages: true }, 'strong'],
    ['code below 8 KiB', { hasCode: true, inputBytes: 8_191 }, 'standard'],
    ['code from 8 KiB', { hasCode: true, inputBytes: 8_192 }, 'strong'],
    ['tools below 24 KiB', { hasTools: true, inputBytes: 24_575 }, 'standard'],
    ['tools from 24 KiB', { hasTools: true, inputBytes: 24_576 }, 'strong'],
    ['text below 48 KiB', { inputBytes: 49_151 }, 'standard'],
    ['text from 48 KiB', { inputBytes: 49_152 }, 'strong'],
    ['a large image', { hasImages: true, inputBytes: 5_000_000 }, 'standard'],
  ])('picks the tier for %s', (_name, features, tier) => {
    expect(classify({ ...small, ...features }, all)).toBe(tier);
  });

  test("falls back to the standard tier if the best tier for a call doesn't exist", () => {
    expect(classify(small, ['standard', 'strong'])).toBe('standard');
    expect(classify({ ...small, inputBytes: 60_000 }, ['trivial', 'standard'])).toBe('standard');
  });
});

describe('the classifier model', () => {
  const ask =
    (answer: string): Complete =>
    () =>
      Promise.resolve(answer);
  const choose = (answering: Complete, options: { deadlineMs?: number; tiers?: readonly AutoTier[]; text?: string | null } = {}) =>
    classifyByModel({ complete: answering, features: small, text: 'hello', tiers: all, deadlineMs: 5_000, ...options });

  test.each<[string, AutoTier]>([
    ['strong', 'strong'],
    [' Trivial.\n', 'trivial'],
    ['"standard"', 'standard'],
    ['**STRONG**', 'strong'],
    ['I think it is strong', 'standard'],
    ['stronger', 'standard'],
    ['', 'standard'],
    ['42', 'standard'],
  ])("understands the classifier model's response %j as %s", async (answer, tier) => {
    expect(await choose(ask(answer))).toBe(tier);
  });

  test("falls back to the standard tier if the classifier picks a tier that wasn't offered", async () => {
    expect(await choose(ask('strong'), { tiers: ['trivial', 'standard'] })).toBe('standard');
  });

  test('falls back to the standard tier after any error of the classifier model', async () => {
    expect(await choose(() => Promise.reject(new Error('no route')))).toBe('standard');
    const throwing: Complete = () => {
      throw new Error('no route');
    };
    expect(await choose(throwing)).toBe('standard');
  });

  test("falls back to the standard tier at the deadline and cancels the classifier's call", async () => {
    let signal: AbortSignal | null = null;
    const silent: Complete = (request) => {
      signal = request.signal;
      return new Promise(() => undefined);
    };
    expect(await choose(silent, { deadlineMs: 5 })).toBe('standard');
    expect(signal).toMatchObject({ aborted: true });
  });

  test('sends up to 2,000 characters of text to the trivial tier in a single call', async () => {
    const asked: CompletionRequest[] = [];
    const recording: Complete = async (request) => {
      asked.push(request);
      return 'trivial';
    };
    await choose(recording, { text: '🙂'.repeat(3_000), tiers: ['trivial', 'standard'] });
    await choose(recording, { text: null });
    expect(asked).toHaveLength(2);
    expect(asked[0]).toMatchObject({ model: 'trivial', maxOutputTokens: 16 });
    expect(asked[0]?.system).toContain('one word only: trivial, standard.');
    expect(asked[0]?.text).toBe(`bytes: 200; messages: 1; tools: no; images: no; code: no\n<request>\n${'🙂'.repeat(2_000)}\n</request>`);
    expect(asked[1]?.text).toContain('(too long to show)');
  });
});

describe('choosing the tier of a call', () => {
  const tiers = { standard: ['a/b'], trivial: ['a/b'], strong: ['a/b'], embed: ['a/b'] };
  const catalogWith = (own: Record<string, string[]>) => buildCatalog({ providers: {}, models: {}, tiers: own });

  interface Asked {
    readonly classifier?: Classifier;
    readonly route?: TextRoute;
    readonly model?: string;
    readonly tiers?: Record<string, string[]>;
    readonly project?: Partial<ProjectRouting>;
    readonly text?: string;
    readonly remainingMs?: number;
    readonly ask?: Complete;
  }
  const asks: CompletionRequest[] = [];
  const choose = (asked: Asked) => {
    const body = Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: asked.text ?? 'hi' }] }));
    return chooseTier(
      { catalog: catalogWith(asked.tiers ?? tiers), classifier: asked.classifier ?? 'rules' },
      {
        project: { ...project, ...asked.project },
        source: 'acme',
        route: asked.route ?? 'chat',
        requestedModel: asked.model ?? 'auto',
        body,
        spans: scanObject(body),
        remainingMs: asked.remainingMs ?? null,
        complete:
          asked.ask ??
          (async (request) => {
            asks.push(request);
            return 'strong';
          }),
      },
    );
  };

  test.each<[string, Asked, string]>([
    ['rules', {}, 'trivial'],
    ['rules for messages', { route: 'messages' }, 'trivial'],
    ['rules for a long text', { text: 'word '.repeat(20_000) }, 'strong'],
    ['a classifier that is off', { classifier: 'off' }, 'standard'],
    ['a call that names its model', { model: 'a/b' }, 'standard'],
    ['responses, which have no classifier', { route: 'responses' }, 'standard'],
    ['moderations, which have no classifier', { route: 'moderations' }, 'standard'],
    ['reranking, which has no classifier', { route: 'rerank' }, 'standard'],
    ['embeddings', { route: 'embeddings' }, 'embed'],
    ['embeddings, even with a classifier model', { route: 'embeddings', classifier: 'model' }, 'embed'],
    ['a project with only the standard tier', { tiers: { standard: ['a/b'] } }, 'standard'],
    ['a classifier model with only the standard tier', { tiers: { standard: ['a/b'] }, classifier: 'model' }, 'standard'],
    ['an empty tier', { tiers: { ...tiers, trivial: [] } }, 'standard'],
    ['a classifier model without a small model', { tiers: { standard: ['a/b'], strong: ['a/b'] }, classifier: 'model' }, 'standard'],
    ["the project's tier", { tiers: { standard: ['a/b'] }, project: { tiers: { trivial: ['a/b'] } } }, 'trivial'],
    [
      "the application's tier",
      { tiers: { standard: ['a/b'] }, project: { applications: new Map([['acme', { tiers: { trivial: ['a/b'] } }]]) } },
      'trivial',
    ],
  ])('picks the tier without asking a model for %s', async (_name, asked, tier) => {
    asks.length = 0;
    expect(await choose(asked)).toBe(tier);
    expect(asks).toEqual([]);
  });

  test('lets the classifier model pick the tier if a classifier model is configured', async () => {
    expect(await choose({ classifier: 'model', text: 'Prove it.' })).toBe('strong');
    expect(asks.at(-1)?.text).toContain('<request>\nProve it.\n</request>');
  });

  test("doesn't wait longer than a quarter of the remaining time for the classifier model", async () => {
    // Without this limit the wait would last until the test times out.
    expect(await choose({ classifier: 'model', remainingMs: 40, ask: () => new Promise(() => undefined) })).toBe('standard');
  });
});
