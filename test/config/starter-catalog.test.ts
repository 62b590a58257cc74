import { describe, expect, test } from '@jest/globals';
import { parseImportedRows } from '../../src/config/catalog.ts';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { findVendorByAddress } from '../../src/config/vendors/known-vendors.ts';
import type { Tiers } from '../../src/core/call.ts';
import { tokenCost } from '../../src/core/cost.ts';
import { buildCatalog, toPrice } from '../../src/routing/catalog.ts';

const load = (fileText: string): Config => loadConfig({ env: {}, fileText, fileName: 'gateway.yaml' });

const hosts = [
  'api.openai.com',
  'api.anthropic.com',
  'generativelanguage.googleapis.com',
  'api.mistral.ai',
  'api.groq.com',
  'api.deepseek.com',
  'api.x.ai',
  'api.cohere.com',
  'api.jina.ai',
  'api.voyageai.com',
];

describe('the starter catalog', () => {
  test.each(hosts)('never charges less for longer calls on %s', (host) => {
    const models = findVendorByAddress(`https://${host}/`)?.models ?? {};
    expect(Object.keys(models).length).toBeGreaterThan(0);
    const named = Object.fromEntries(Object.entries(models).map(([model, row]) => [`p/${model}`, row]));
    const { rows, errors } = parseImportedRows(named, () => ({ dialect: 'chat', vendor: null }));
    expect(errors).toEqual([]);
    for (const [id, row] of Object.entries(rows)) {
      const counted = row.perImageNanos ?? row.perMillionCharactersNanos ?? row.perSecondNanos;
      expect([id, toPrice(row) !== null || counted !== null]).toEqual([id, true]);
      if (row.kind === 'chat') expect([id, row.maxInputTokens]).toEqual([id, expect.any(Number)]);
      if (!row.price) continue;
      expect([id, row.price.cachedInputNanos <= row.price.inputNanos]).toEqual([id, true]);
      for (const { price } of row.aboveTokens) {
        expect([id, price.inputNanos > row.price.inputNanos && price.outputNanos > row.price.outputNanos]).toEqual([id, true]);
      }
    }
  });

  test('gives a provider the starter catalog of the vendor that its base URL belongs to', () => {
    const { models } = load(`providers:
  mine: { base_url: https://api.openai.com/v1, dialect: chat }
  vectors: { base_url: https://api.openai.com/v1, dialect: chat, serves: [embeddings] }
  claude: { base_url: https://api.anthropic.com/v1, dialect: messages }
  gemini: { base_url: https://generativelanguage.googleapis.com/v1beta/openai, dialect: chat }
  veo: { base_url: https://generativelanguage.googleapis.com/v1beta, dialect: gemini }
  europe: { base_url: https://eu.api.openai.com/v1, dialect: chat }
  proxy: { base_url: http://127.0.0.1:4000/v1, dialect: chat }
`);
    expect(models['mine/gpt-4o-mini']).toMatchObject({ source: 'starter', kind: 'chat', maxOutputTokens: 16_384 });
    expect(models['mine/sora-2']).toBeUndefined();
    expect(models['claude/claude-haiku-4-5']?.price?.cacheWrite1hNanos).toBe(2_000_000_000n);
    const idsOf = (provider: string): string[] => Object.keys(models).filter((id) => id.startsWith(`${provider}/`));
    expect(idsOf('vectors')).toEqual([
      'vectors/text-embedding-3-small',
      'vectors/text-embedding-3-large',
      'vectors/text-embedding-ada-002',
    ]);
    expect(models['gemini/gemini-2.5-pro']?.aboveTokens).toHaveLength(1);
    expect(idsOf('veo').every((id) => models[id]?.kind === 'video')).toBe(true);
    expect(idsOf('gemini').some((id) => models[id]?.kind === 'video')).toBe(false);
    expect([...idsOf('europe'), ...idsOf('proxy')]).toEqual([]);
  });

  test.each([
    ...['claude-opus-5-5', 'claude-sonnet-5-5', 'claude-haiku-5-5', 'claude-fable-5-2', 'claude-haiku-4-5-20251001', 'claude-sonnet-4-5'],
    ...['gpt-6.2-sol', 'gpt-6.1-sol', 'gpt-6.1-terra', 'gpt-6-astra', 'gpt-5.5-2026-04-23', 'gpt-4o', 'gpt-4o-mini-2024-07-18', 'o3'],
  ])("resolves the name %s to its vendor's model", (name) => {
    const providers = `providers:
  claude: { base_url: https://api.anthropic.com/v1, dialect: messages }
  open: { base_url: https://api.openai.com/v1, dialect: chat }
`;
    expect(buildCatalog(load(providers)).idsByBareName.get(name)).toEqual([`${name.startsWith('claude') ? 'claude' : 'open'}/${name}`]);
  });

  test.each([
    [{ OPENAI_API_KEY: 'k' }, 'openai'],
    [{ ANTHROPIC_API_KEY: 'k' }, 'anthropic'],
  ])('fills each tier with models of the right kind: %j', (env, provider) => {
    const { models, tiers, imageTiers, speechTiers, transcriptionTiers } = loadConfig({ env, fileText: null, fileName: 'gateway.yaml' });
    const { embed = [], ...chat } = tiers;
    const kindsOf = (chains: Tiers) => [...new Set(Object.values(chains).flat())].map((id) => [id, models[id]?.source, models[id]?.kind]);
    const allOf = (chains: Tiers, kind: string) => [...new Set(Object.values(chains).flat())].map((id) => [id, 'starter', kind]);
    expect(Object.keys(chat)).toEqual(['standard', 'strong', 'trivial']);
    for (const [chains, kind] of [
      [chat, 'chat'],
      [{ embed }, 'embeddings'],
      [imageTiers, 'images'],
      [speechTiers, 'speech'],
      [transcriptionTiers, 'transcriptions'],
    ] as const) {
      expect(kindsOf(chains)).toEqual(allOf(chains, kind));
      expect(kindsOf(chains).every(([id]) => id?.startsWith(`${provider}/`))).toBe(true);
    }
  });

  test("sends only documented parameters to OpenAI's image models", () => {
    const { models } = load('providers: { openai: { base_url: https://api.openai.com/v1, dialect: chat } }');
    const images = Object.values(models).filter(({ kind }) => kind === 'images');
    expect(images.length).toBeGreaterThan(3);
    for (const { id, takes } of images) {
      expect([id, takes]).toEqual([id, expect.arrayContaining(['quality', 'background', 'output_format'])]);
      expect(takes).not.toContain('response_format');
    }
    expect(models['openai/gpt-4o-mini-tts']?.takes).toEqual(['speed', 'instructions']);
  });

  test('a model in gateway.yaml replaces its entire entry in the starter catalog', () => {
    const { models } = load(`providers: { openai: { base_url: https://api.openai.com/v1, dialect: chat } }
models:
  openai/own: { input: 1, output: 2 }
  openai/gpt-4o: { input: 9, output: 9 }
`);
    expect(Object.keys(models).slice(0, 2)).toEqual(['openai/own', 'openai/gpt-4o']);
    expect(models['openai/gpt-4o']).toMatchObject({
      source: 'file',
      price: { inputNanos: 9_000_000_000n, cachedInputNanos: 9_000_000_000n },
    });
    expect(models['openai/gpt-4o-mini']?.source).toBe('starter');
  });

  test("uses the vendor's list prices for service tiers and tools if a model's entry omits them", () => {
    const { models } = load(`providers:
  openai: { base_url: https://api.openai.com/v1, dialect: chat }
  claude: { base_url: https://api.anthropic.com/v1, dialect: messages }
  proxy: { base_url: http://127.0.0.1:4000/v1, dialect: chat }
models:
  openai/gpt-5: { input: 1, output: 2, service_tiers: { priority: 3.5 }, per_tool_use: { file_search: 0.5 } }
  openai/own: { input: 1, output: 2 }
  proxy/gpt-5: { input: 1, output: 2 }
`);
    expect(models['openai/gpt-5']).toMatchObject({
      tierMillionths: { priority: 3_500_000n, flex: 500_000n },
      perToolUseNanos: { file_search: 500_000_000n, web_search: 10_000_000n },
    });
    expect(models['openai/own']).toMatchObject({ tierMillionths: {}, perToolUseNanos: { web_search: 10_000_000n } });
    expect(models['openai/gpt-4o-mini']).toMatchObject({
      tierMillionths: { priority: 1_666_667n },
      perToolUseNanos: { web_search: 10_000_000n, web_search_preview: 25_000_000n },
    });
    expect(models['claude/claude-opus-4-7']).toMatchObject({ tierMillionths: { us: 1_100_000n, fast: 6_000_000n } });
    expect(models['claude/claude-sonnet-4-5']).toMatchObject({ tierMillionths: {}, perToolUseNanos: { web_search: 10_000_000n } });
    expect(models['proxy/gpt-5']).toMatchObject({ tierMillionths: {}, perToolUseNanos: {} });
    expect(models['openai/text-embedding-3-small']).toMatchObject({ perToolUseNanos: {} });
  });

  test.each([
    ['openai/gpt-4o-mini-2024-07-18', 48_169],
    ['openai/gpt-4o', 1_536],
    ['openai/gpt-5-nano', 3_779],
    ['openai/gpt-6.2-sol', 10_000],
    ['claude/claude-opus-4-5', 1_600],
    ['claude/claude-opus-4-7', 4_784],
    ['claude/claude-sonnet-5', 4_784],
    ['gemini/gemini-2.5-pro', 4_128],
    ['gemini/gemini-3.8-flash', 2_240],
    ['gemini/gemini-embedding-001', null],
  ])('estimates that an image for %s takes %p tokens or fewer', (id, tokens) => {
    const { models } = load(`providers:
  openai: { base_url: https://api.openai.com/v1, dialect: chat }
  claude: { base_url: https://api.anthropic.com/v1, dialect: messages }
  gemini: { base_url: https://generativelanguage.googleapis.com/v1beta/openai, dialect: chat }
`);
    expect([id, models[id]?.imageTokens]).toEqual([id, tokens]);
  });

  test('rejects invalid service tier factors and tool prices', () => {
    const { errors } = parseImportedRows(
      { 'p/m': { input: '1', output: '1', service_tiers: { priority: '2x' }, per_tool_use: { web_search: '-1' } } },
      () => ({ dialect: 'chat', vendor: null }),
    );
    expect(errors.map((error) => error.split(':')[0])).toEqual(['models.p/m.service_tiers.priority', 'models.p/m.per_tool_use.web_search']);
  });

  test("uses the vendor's default capabilities and limits if a model's entry omits them", () => {
    const { models } = load(`providers:
  claude: { base_url: https://api.anthropic.com/v1, dialect: messages }
  proxy: { base_url: http://127.0.0.1:4000/v1, dialect: messages }
models:
  claude/claude-opus-4-7: { input: 9, output: 9 }
  claude/claude-sonnet-4-6: { input: 9, output: 9, thinking: none, supports_schema: false, serves: [messages] }
  proxy/claude-opus-4-7: { input: 9, output: 9 }
`);
    expect(models['claude/claude-opus-4-7']?.traits).toEqual({ supportsSchema: true, thinking: 'adaptive' });
    // Without the default, a call that sets no limit would reserve more than the model can produce.
    expect([models['claude/claude-opus-4-7'], models['proxy/claude-opus-4-7']].map((row) => row?.maxOutputTokens)).toEqual([128_000, null]);
    expect(models['claude/claude-sonnet-4-6']).toMatchObject({ traits: { supportsSchema: false, thinking: 'none' }, serves: ['messages'] });
    expect(models['claude/claude-sonnet-4-5']?.traits).toEqual({ supportsSchema: true, thinking: 'budget' });
    expect(models['proxy/claude-opus-4-7']).toMatchObject({ traits: {}, serves: null });
    const imported = { 'openai/gpt-4o': { input: '1', output: '1' }, 'openai/gpt-5': { input: '1', output: '1', reasons: false } };
    const { rows } = parseImportedRows(imported, () => ({ dialect: 'chat', vendor: 'openai' }));
    expect([rows['openai/gpt-4o']?.traits, rows['openai/gpt-5']?.traits]).toEqual([{ reasons: false }, { reasons: false }]);
  });

  test("charges long prompts at the vendor's long-prompt price", () => {
    const { models } = load('providers: { a: { base_url: https://api.anthropic.com/v1, dialect: messages } }');
    const row = models['a/claude-haiku-5-5'];
    const price = row ? toPrice(row) : null;
    const tokens = { input: 50_000, cachedInput: 50_000, cacheWrite: 0, cacheWrite1h: 0, output: 1_000 };
    expect(price && tokenCost(tokens, price)).toBe(6_000_000);
    expect(price && tokenCost({ ...tokens, cacheWrite1h: 1 }, price)).toBe(25_000_000 + 2_500_000 + 1_000 + 2_500_000);
  });
});

describe('imported rows', () => {
  const findProvider = (name: string) => (name === 'a' ? { dialect: 'messages' as const, vendor: 'anthropic' } : null);

  test('parses imported catalog entries like entries in gateway.yaml', () => {
    const { rows, errors } = parseImportedRows({ 'a/b/c': { input: 0.1, output: '0.30', max_output_tokens: 5 } }, findProvider);
    expect(errors).toEqual([]);
    expect(rows['a/b/c']).toMatchObject({
      source: 'import',
      kind: 'chat',
      maxOutputTokens: 5,
      price: { inputNanos: 100_000_000n, outputNanos: 300_000_000n, cacheWriteNanos: 125_000_000n },
    });
  });

  test('reports all errors in imported catalog entries and keeps the valid ones', () => {
    const { rows, errors } = parseImportedRows(
      {
        'a/good': { per_search: '0.002' },
        'a/free': { input: 'free', output: '1' },
        'a/half': { input: '1' },
        'a/odd': { inptu: '1' },
        'a/served': { kind: 'embeddings', input: '1', serves: ['chat'] },
        'a/spoken': { kind: 'speech', input: '1', first_content_timeout_ms: 5 },
        'a/takes': { kind: 'speech', input: '1', takes: ['speed', 'quality'] },
        'a/takes-chat': { input: '1', output: '1', takes: ['speed'] },
        'a/takes-odd': { per_image: '1', takes: ['qualty'] },
        'a/thinks': { input: '1', output: '1', thinking: 'hard' },
        'nobody/x': { input: '1', output: '1' },
        bare: { input: '1', output: '1' },
        'a/null\u0000': { input: '1', output: '1' },
        'a/\ud800': { input: '1', output: '1' },
      },
      findProvider,
    );
    expect(Object.keys(rows)).toEqual(['a/good']);
    expect(errors).toEqual([
      'models.a/free.input: must be an amount in USD, written as a decimal number such as 0.15',
      'models.a/half.output: is required if you set input',
      'models.a/odd: Unrecognized key: "inptu"',
      'models.a/served.serves: is only allowed for chat models',
      'models.a/spoken.first_content_timeout_ms: is not allowed for image, speech, transcription and video models, because they have no failover',
      'models.a/takes.takes.1: models of kind speech only accept speed, instructions',
      'models.a/takes-chat.takes.0: is only allowed for image and speech models',
      expect.stringMatching(/^models\.a\/takes-odd\.takes\.0: Invalid option: expected one of "response_format"\|"quality"/),
      'models.a/thinks.thinking: Invalid option: expected one of "budget"|"adaptive"|"none"',
      'models.nobody/x: there is no provider nobody',
      'models.bare: must be a model as <provider>/<model>',
      'models.a/null\u0000: must be a model as <provider>/<model>',
      'models.a/\ud800: must be a model as <provider>/<model>',
    ]);
    expect(parseImportedRows([], findProvider).errors).toEqual(['models: must be an object with one row for each model']);
  });
});
