import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { type Config, ConfigError } from '../../src/config/config.ts';
import { demoConfig, loadConfig, readConfigSource } from '../../src/config/load.ts';
import { tokenCost } from '../../src/core/cost.ts';
import { standardFormat } from '../../src/core/request-format.ts';

const load = (fileText: string | null, env: Record<string, string> = {}): Config => loadConfig({ env, fileText, fileName: 'gateway.yaml' });

const errorsOf = (fileText: string, env: Record<string, string> = {}): readonly string[] => {
  try {
    load(fileText, env);
  } catch (error) {
    if (error instanceof ConfigError) return error.errors;
    throw error;
  }
  return [];
};

const minimal = `providers:
  openai: { base_url: https://api.openai.com/v1/, dialect: chat }
`;

describe('gateway.yaml', () => {
  test('applies the documented defaults to gateway.example.yaml', () => {
    const text = readFileSync(new URL('../../gateway.example.yaml', import.meta.url), 'utf8');
    const config = load(text, { OPENAI_API_KEY: 'o', ANTHROPIC_API_KEY: 'a', GEMINI_API_KEY: 'g' });
    expect(config.providers.openai).toEqual({
      name: 'openai',
      members: [],
      vendor: 'openai',
      egress: null,
      requests: { ...standardFormat, maxTokensField: 'max_completion_tokens' },
      baseUrl: 'https://api.openai.com/v1',
      apiKey: 'o',
      dialect: 'chat',
      serves: ['chat', 'embeddings', 'responses', 'moderations', 'rerank', 'images', 'speech', 'transcriptions'],
      tags: [],
      responses: 'native',
      auth: { header: 'authorization', scheme: 'Bearer' },
      identity: null,
      headers: {},
      connectTimeoutMs: 5_000,
      firstByteTimeoutMs: 300_000,
      firstContentTimeoutMs: null,
      idleTimeoutMs: 60_000,
      imageShape: 'openai',
      imageResponseFormat: true,
      speechShape: 'openai',
      speechMediaType: null,
      speech: { voiceIn: 'path', path: '/text-to-speech/{voice}', textField: 'text', body: {} },
      assetHosts: [],
    });
    expect(config.providers.anthropic).toMatchObject({ auth: { header: 'x-api-key', scheme: null }, serves: ['messages'] });
    expect(config.providers.google).toMatchObject({ auth: { header: 'x-goog-api-key', scheme: null }, serves: ['video'] });
    expect(config.models['anthropic/claude-haiku-5-5']?.aboveTokens).toMatchObject([
      { tokens: 100_000, price: { outputNanos: 2_500_000_000n } },
    ]);
    expect(config.models['openai/gpt-image-2.6-flare']).toMatchObject({ kind: 'images', takes: ['quality', 'output_format'] });
    expect(config.models['openai/tts-1']).toMatchObject({ kind: 'speech', price: null, perMillionCharactersNanos: 15_000_000_000n });
    expect(config).toMatchObject({
      demo: false,
      catalogFill: true,
      onBudgetStoreDown: 'allow',
      memory: { idleMs: 600_000, recallDeadlineMs: 800, retry: { initialMs: 60_000, factor: 2, maxMs: 21_600_000 } },
    });
    expect(config.defaults).toEqual({
      imageProvider: 'openai',
      speechProvider: 'openai',
      transcriptionProvider: 'openai',
      videoProvider: 'google',
      videoModel: 'veo-3.1-generate-001',
    });
  });

  test('reports all errors in gateway.yaml together with their line numbers', () => {
    const errors = errorsOf(`providers:
  openai:
    base_url: ftp://somewhere
    dialect: chat
    api_key: \${NOT_SET}
  broken: { base_url: https://a/v1, dialect: klingon }
models:
  openai/a: { input: free, output: 1 }
  opnai/b: { input: 1, output: 1 }
  broken/c: { input: 1, output: 1, max_output_tokens: many }
tiers:
  standard: [openai/a, nobody/x]
  auto: [openai/a]
defaults: { video_provider: vimeo }
memory: { idle_minutes: 0 }
colour: red
`);
    const expected = [
      'gateway.yaml:3 providers.openai.base_url: must be an address with http:// or https://',
      'gateway.yaml:5 providers.openai.api_key: the environment variable NOT_SET is not set',
      'gateway.yaml:6 providers.broken.dialect: must be chat or messages or gemini',
      'gateway.yaml:8 models.openai/a.input: must be an amount in USD, written as a decimal number such as 0.15',
      'gateway.yaml:9 models.opnai/b: there is no provider opnai',
      'gateway.yaml:10 models.broken/c.max_output_tokens: must be a number',
      'gateway.yaml:12 tiers.standard.1: there is no provider nobody',
      'gateway.yaml:13 tiers.auto: "auto" is reserved: it lets the gateway choose a tier',
      'gateway.yaml:14 defaults.video_provider: there is no provider vimeo',
      'gateway.yaml:15 memory.idle_minutes: must be at least ',
      'gateway.yaml:16 colour: there is no such setting',
    ];
    for (const error of expected) expect(errors).toContainEqual(expect.stringContaining(error));
    expect(errors.length).toBe(expected.length);
  });

  test("merges a pool member's settings with the provider's settings", () => {
    const { pool } = load(`providers:
  pool:
    base_url: https://east.example.com/v1
    dialect: chat
    api_key: shared
    headers: { x-team: one }
    model_names: { gpt: gpt-1 }
    members:
      - { name: east, weight: 3 }
      - name: west
        base_url: https://west.example.com/v1/
        api_key: own
        auth: { header: Api-Key }
        headers: { X-Region: west }
        model_names: { gpt: gpt-2 }
        account: a
`).providers;
    expect(pool).toMatchObject({ name: 'pool', baseUrl: 'https://east.example.com/v1', apiKey: 'shared' });
    expect(pool?.members).toMatchObject([
      {
        ...{
          member: 'east',
          weight: 3,
          account: null,
          baseUrl: 'https://east.example.com/v1',
          apiKey: 'shared',
          headers: { 'x-team': 'one' },
        },
        requests: { modelNames: { gpt: 'gpt-1' } },
      },
      {
        ...{ member: 'west', weight: 1, account: 'a', baseUrl: 'https://west.example.com/v1', apiKey: 'own', members: [] },
        ...{ auth: { header: 'api-key', scheme: null }, headers: { 'x-team': 'one', 'x-region': 'west' } },
        requests: { modelNames: { gpt: 'gpt-2' } },
      },
    ]);
  });

  test("a pool member can use a cloud identity instead of the provider's key", () => {
    const { azure } = load(`providers:
  azure:
    vendor: azure-openai
    base_url: https://east.openai.azure.com/openai/v1
    api_key: shared
    members:
      - { name: east }
      - { name: west, base_url: "https://west.openai.azure.com/openai/v1", auth: { type: azure, client_id: c } }
`).providers;
    expect(azure?.members).toMatchObject([
      { member: 'east', apiKey: 'shared', identity: null },
      { member: 'west', apiKey: null, identity: { type: 'azure', clientId: 'c' } },
    ]);
  });

  test('reports an invalid pool setting once instead of once per member', () => {
    const errors = errorsOf(`providers:
  pool:
    base_url: https://east.example.com/v1
    dialect: messages
    serves: [chat]
    members:
      - { name: east, weight: 0 }
      - { name: east, weight: 0, base_url: "https://west.example.com/v1?x=1" }
  open:
    dialect: chat
    members:
      - { name: a, base_url: "https://a.example.com/v1" }
      - { name: b }
  mixed:
    members:
      - { name: a, base_url: "https://api.openai.com/v1" }
      - { name: b, base_url: "https://api.anthropic.com/v1" }
`);
    const expected = [
      'providers.pool.serves.0: a provider with the messages dialect cannot serve chat',
      'providers.pool.members.1.base_url: must end with the path',
      'providers.pool.members.1.name: is already the name of another member',
      'providers.pool.members: at least one member must have a weight above 0',
      'providers.open.members.1.base_url: is required',
      'providers.mixed.members.1: has the dialect messages, but the first member has chat',
    ];
    for (const error of expected) expect(errors).toContainEqual(expect.stringContaining(error));
    expect(errors.length).toBe(expected.length);
  });

  test('reports invalid YAML with a line number', () => {
    expect(errorsOf('providers: {}\nproviders: {}\n')).toEqual(['gateway.yaml:2:1: Map keys must be unique']);
    for (const [text, location] of [
      ['providers:\n  openai: {base_url: [}\n', '2:23'],
      ['a: [1, 2\nb: {c: d\ne: f\n  g: h\n', '2:1'],
      ['a: 1\n\tb: 2\nc: 3\n', '2:1'],
    ] as const) {
      const errors = errorsOf(text);
      expect(errors).toHaveLength(1);
      expect(errors[0]).toMatch(new RegExp(`^gateway\\.yaml:${location}: [^\\n]+$`));
    }
    expect(errorsOf('just text')).toEqual(['gateway.yaml: must be a mapping with keys such as providers']);
  });

  test("environment variables can't change the structure of gateway.yaml", () => {
    const text = `providers:\n  a: { base_url: "https://\${HOST_NAME}/v1", api_key: "\${KEY}", dialect: chat }\n`;
    const nasty = 'x"},admin_token:aaaaaaaaaaaaaaaaaaaa#';
    expect(load(text, { HOST_NAME: 'b.example', KEY: nasty }).providers.a).toMatchObject({
      baseUrl: 'https://b.example/v1',
      apiKey: nasty,
    });
    expect(errorsOf(text, { HOST_NAME: 'b.example', KEY: 'key\nmore' })).toEqual([
      'gateway.yaml:2 providers.a.api_key: must consist of printable ASCII characters without spaces or line breaks',
    ]);
    expect(errorsOf(text, { HOST_NAME: 'b.example', KEY: '' })).toEqual([
      'gateway.yaml:2 providers.a.api_key: the environment variable KEY is not set',
    ]);
  });

  test("rejects URLs and headers that can't be sent in HTTP requests", () => {
    const rowOf = (more: string): readonly string[] => errorsOf(`providers:\n  a: { dialect: chat, ${more} }\n`);
    expect(rowOf('base_url: " https://a/v1"')).toEqual(['gateway.yaml:2 providers.a.base_url: must not begin or end with a space']);
    expect(rowOf('base_url: https://a/v1, headers: { Host: b, transfer-encoding: chunked, x-fine: c }')).toEqual([
      'gateway.yaml:2 providers.a.headers.Host: is set by the HTTP connection and cannot be configured',
      'gateway.yaml:2 providers.a.headers.transfer-encoding: is set by the HTTP connection and cannot be configured',
    ]);
  });

  test('rejects YAML aliases and reports the line number', () => {
    expect(errorsOf('tiers: &t\n  standard: *t\n')).toContain(
      'gateway.yaml:2 tiers.standard: aliases (*t) are not supported; write out the value instead',
    );
  });

  describe('requirements of `gateway serve`', () => {
    const env = { DATABASE_URL: 'postgres://gateway@db/gateway', GATEWAY_TEMPORAL: 'off' };
    const loadFor = (command: 'start' | 'serve' | 'worker', fileText: string | null): Config =>
      loadConfig({ env, fileText, fileName: 'gateway.yaml', command });
    const serveErrors = (fileText: string | null): readonly string[] => {
      try {
        loadFor('serve', fileText);
      } catch (error) {
        if (error instanceof ConfigError) return error.errors;
      }
      return [];
    };
    const needsToken =
      'GATEWAY_ADMIN_TOKEN: is required for gateway serve; use the same token in every process, with at least 16 characters (openssl rand -hex 32)';

    test('`gateway serve` requires a provider and an admin token', () => {
      expect(serveErrors(null)).toEqual([expect.stringContaining('no providers are configured: add them to gateway.yaml'), needsToken]);
      expect(serveErrors(minimal)).toEqual([needsToken]);
      expect(serveErrors(`${minimal}admin_token: 0123456789abcdef\n`)).toEqual([]);
      expect(loadFor('worker', null).providers).toEqual({});
    });

    test('`gateway start` requires an admin token if DATABASE_URL is set', () => {
      expect(() => loadFor('start', minimal)).toThrow(needsToken.replace('gateway serve', 'gateway start with DATABASE_URL'));
      expect(() => loadConfig({ env: {}, fileText: minimal, fileName: 'gateway.yaml', command: 'start' })).not.toThrow();
    });

    test.each([
      ['a syntax error', `${minimal}tiers: [\n`, /^gateway\.yaml:4:1: /],
      ['an admin token that is too short', `${minimal}admin_token: short\n`, /^gateway\.yaml:3 admin_token: must have at least 16/],
      ['a list', '- providers\n', /^gateway\.yaml: must be a mapping/],
    ])('reports %s without follow-up errors', (_title, text, error) => {
      expect(serveErrors(text)).toEqual([expect.stringMatching(error)]);
    });
  });

  describe('warnings', () => {
    const warningsOf = (fileText: string): readonly string[] => load(fileText).warnings;

    test('warns once per tier about models without a price', () => {
      expect(
        warningsOf(`${minimal}models:
  openai/priced: { input: 1, output: 2 }
  openai/unpriced: { max_output_tokens: 10 }
tiers:
  standard: [openai/priced, openai/gpt-4o-mini, openai/unpriced]
  fine: [openai/private-model]
image_tiers:
  standard: [openai/gpt-image-2.6-flare, openai/private-image]
canaries:
  fine: { model: openai/next, share: 0.05 }
`),
      ).toEqual(
        [
          'gateway.yaml:12 canaries.fine.model: openai/next has no price',
          'gateway.yaml:7 tiers.standard.2: openai/unpriced has no price',
          'gateway.yaml:8 tiers.fine.0: openai/private-model has no price',
          'gateway.yaml:10 image_tiers.standard.1: openai/private-image has no price',
        ].map(
          (beginning) => `${beginning}; unless you import one, the cost of its calls is unknown, and calls with a cost ceiling skip it`,
        ),
      );
    });

    test.each([
      'http://169.254.169.254/v1',
      'http://0xA9FEA9FE/v1',
      'http://[fe80::1]/v1',
      'http://[::ffff:169.254.1.1]/v1',
      'http://[fd00:ec2::254]/v1',
      'http://metadata.google.internal./v1',
      'http://instance-data.ec2.internal/v1',
    ])('warns about %s as a link-local or metadata address', (url) => {
      expect(warningsOf(`providers:\n  a: { base_url: "${url}", dialect: chat }\n`)).toEqual([
        'gateway.yaml:2 providers.a.base_url: is a link-local address or a cloud metadata service, which cannot be a vendor; check the address',
      ]);
    });

    test("doesn't warn about gateway.example.yaml or private IP addresses", () => {
      const text = readFileSync(new URL('../../gateway.example.yaml', import.meta.url), 'utf8');
      expect(load(text, { OPENAI_API_KEY: 'o', ANTHROPIC_API_KEY: 'a', GEMINI_API_KEY: 'g' }).warnings).toEqual([]);
      expect(load(null, { OPENAI_API_KEY: 'o', ANTHROPIC_API_KEY: 'a' }).warnings).toEqual([]);
      expect(load(null).warnings).toEqual([]);
      for (const host of ['10.0.0.1', '192.168.1.1', 'localhost:11434', '[fd00::1]', 'metadata.example.com'])
        expect(warningsOf(`providers:\n  a: { base_url: "http://${host}/v1", dialect: chat }\n`)).toEqual([]);
    });
  });

  test('converts decimal prices to nano-dollars without rounding errors', () => {
    const config = load(`${minimal}models:
  openai/exact: { input: 0.1, cached_input: 0.075, output: "0.30", cache_write: 0.1250000004 }
  openai/plain: { input: 3, output: 0.000001 }
  openai/flat: { per_million_tokens: 0.05 }
  openai/free: { kind: embeddings, input: 0 }
`);
    expect(config.models['openai/exact']?.price).toEqual({
      inputNanos: 100_000_000n,
      cachedInputNanos: 75_000_000n,
      outputNanos: 300_000_000n,
      cacheWriteNanos: 125_000_000n,
      cacheWrite1hNanos: 125_000_000n,
    });
    expect(config.models['openai/plain']?.price).toMatchObject({
      inputNanos: 3_000_000_000n,
      cachedInputNanos: 3_000_000_000n,
      outputNanos: 1_000n,
    });
    expect(config.models['openai/flat']?.price).toMatchObject({ inputNanos: 50_000_000n, outputNanos: 50_000_000n });
    expect(config.models['openai/free']?.price).toMatchObject({ inputNanos: 0n, outputNanos: 0n });
  });

  test('charges more for cache writes than for input by default if the dialect is messages', () => {
    const config = load(`providers: { a: { base_url: https://a/v1, dialect: messages } }
models:
  a/left: { input: 3, output: 15 }
  a/given: { input: 3, output: 15, cache_write: 1, cache_write_1h: 2, cached_input: 0.3 }
`);
    expect(config.models['a/left']?.price).toMatchObject({
      cachedInputNanos: 3_000_000_000n,
      cacheWriteNanos: 3_750_000_000n,
      cacheWrite1hNanos: 6_000_000_000n,
    });
    expect(config.models['a/given']?.price).toMatchObject({
      cachedInputNanos: 300_000_000n,
      cacheWriteNanos: 1_000_000_000n,
      cacheWrite1hNanos: 2_000_000_000n,
    });
  });

  test.each([
    ['{ input: 1 }', 'output: is required if you set input'],
    ['{ output: 1 }', 'input: is required if you set another token price'],
    ['{ input: -1, output: 1 }', 'input: must be an amount'],
    ['{ input: 1e-7, output: 1 }', 'input: must be an amount'],
    ['{ input: 1, output: 1, per_million_tokens: 1 }', 'per_million_tokens: cannot be combined with input and output'],
    ['{ per_imgae: 1 }', 'per_imgae: there is no such setting'],
    ['{ above_tokens: { many: { input: 1 } } }', 'above_tokens.many: must be a number of tokens'],
  ])('rejects a model %s', (row, sentence) => {
    expect(errorsOf(`${minimal}models:\n  openai/a: ${row}\n`)).toContainEqual(
      expect.stringContaining(`gateway.yaml:4 models.openai/a.${sentence}`),
    );
  });

  test('rejects canaries with an unknown tier, an unsuitable model or an invalid share', () => {
    const text = (canaries: string) => `providers:
  a: { base_url: https://a/v1, dialect: chat }
models:
  a/new: { input: 1, output: 1 }
  a/vectors: { kind: embeddings, input: 1 }
  a/judge: { kind: moderations, input: 1 }
tiers: { standard: [a/new], embed: [a/vectors] }
canaries:
${canaries}
`;
    expect(load(text('  standard: { model: a/unlisted, share: 0.05 }')).canaries).toEqual({
      standard: { model: 'a/unlisted', share: 0.05 },
    });
    const errors = [
      ['nowhere: { model: a/new, share: 0.1 }', 'canaries.nowhere: there is no tier nowhere'],
      ['standard: { model: b/new, share: 0.1 }', 'canaries.standard.model: there is no provider b'],
      ['standard: { model: a/judge, share: 0.1 }', 'canaries.standard.model: is a model of kind moderations'],
      ['embed: { model: a/vectors, share: 0.1 }', 'canaries.embed: embeddings cannot have a canary'],
      ['standard: { model: a/new, share: 1.1 }', 'canaries.standard.share: must be at most 1'],
      ['standard: { model: a/new }', 'canaries.standard.share: is required'],
    ] as const;
    for (const [row, sentence] of errors) expect(errorsOf(text(`  ${row}`))).toEqual([expect.stringContaining(sentence)]);
  });

  test.each([
    ['base_url: https://user:hunter2@a/v1, dialect: chat', 'must not contain a user or password'],
    ['base_url: https://a/v1?x=1, dialect: chat', 'must end with the path'],
    ['base_url: a/v1, dialect: chat', 'must be an address'],
    ['base_url: https://a/v1, dialect: messages, serves: [chat]', 'a provider with the messages dialect cannot serve chat'],
    ['base_url: https://a/v1, dialect: chat, image_shape: cubes', 'must be openai or artifacts'],
    ['base_url: https://a/v1, dialect: chat, headers: { "a b": c }', 'is not a valid header name'],
    ['base_url: https://a/v1, dialect: chat, tags: [e u]', 'providers.a.tags.0: a tag must consist of 1 to 63 letters'],
  ])('rejects a provider with %s', (row, sentence) => {
    const errors = errorsOf(`providers:\n  a: { ${row} }\n`);
    expect(errors).toEqual([expect.stringContaining(sentence)]);
    expect(errors.join()).not.toContain('hunter2');
  });

  test.each([
    ['base_url: https://api.openai.com/v1, dialect: chat', 'native'],
    ['base_url: https://acme.openai.azure.com/openai/v1, dialect: chat', 'native'],
    ['base_url: https://api.openai.com.example/v1, dialect: chat', 'unknown'],
    ['base_url: http://127.0.0.1:8000/v1, dialect: chat', 'unknown'],
    ['base_url: http://127.0.0.1:8000/v1, dialect: chat, serves: [chat, responses]', 'native'],
    ['base_url: https://api.openai.com/v1, dialect: chat, serves: [chat]', 'translated'],
    ['base_url: https://a/v1, dialect: messages', 'translated'],
  ])('detects whether a provider with %s has the responses route: %s', (row, responses) => {
    expect(load(`providers:\n  a: { ${row} }\n`).providers.a?.responses).toBe(responses);
  });

  test('returns a deeply frozen configuration', () => {
    const { providers, models } = load(`${minimal}models: { openai/a: { input: 1, output: 1 } }\n`);
    expect(Object.isFrozen(providers)).toBe(true);
    expect(Object.isFrozen(providers.openai?.auth)).toBe(true);
    expect(Object.isFrozen(models['openai/a']?.price)).toBe(true);
  });
});

describe('without a providers section', () => {
  test('configures every vendor whose API key is set in the environment', () => {
    const config = load(null, { OPENAI_API_KEY: 'o', ANTHROPIC_API_KEY: 'a' });
    expect(Object.keys(config.providers)).toEqual(['openai', 'anthropic']);
    expect(config.tiers.standard).toEqual(['openai/gpt-4o-mini', 'openai/gpt-5.4-mini', 'anthropic/claude-haiku-4-5']);
    expect(config.demo).toBe(false);
    for (const chain of Object.values(config.tiers)) for (const id of chain) expect(config.models[id]?.price).not.toBeNull();
    expect(Object.keys(load(null, { ANTHROPIC_API_KEY: 'a' }).providers)).toEqual(['anthropic']);
  });

  test('tiers in gateway.yaml replace built-in tiers of the same name', () => {
    const config = load('tiers: { standard: [openai/gpt-5-mini] }\nmodels: { openai/gpt-4o: { input: 9, output: 9 } }\n', {
      OPENAI_API_KEY: 'o',
    });
    expect(config.tiers).toMatchObject({ standard: ['openai/gpt-5-mini'], embed: ['openai/text-embedding-3-small'] });
    expect(config.models['openai/gpt-4o']?.price?.inputNanos).toBe(9_000_000_000n);
  });

  test("serves all text tiers with the demo vendor if no vendor's API key is set", () => {
    const config = load('memory: { idle_minutes: 0.05 }', { GATEWAY_ADMIN_TOKEN: 'x'.repeat(16) });
    expect(config).toMatchObject({ demo: true, providers: {} });
    const demo = demoConfig(config, 'http://127.0.0.1:4000/');
    expect(demo.providers).toMatchObject({
      demo: { baseUrl: 'http://127.0.0.1:4000/v1', dialect: 'chat' },
    });
    expect(demo).toMatchObject({ memory: { idleMs: 3_000 }, adminTokens: ['x'.repeat(16)] });
    for (const tier of ['standard', 'strong', 'trivial']) {
      const chain = demo.tiers[tier] ?? [];
      expect(chain).not.toEqual([]);
      for (const id of chain) {
        const price = demo.models[id]?.price;
        expect(price && tokenCost({ input: 1_000, output: 1_000, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0 }, price)).toBeGreaterThan(
          0,
        );
      }
    }
    for (const chain of [...Object.values(demo.tiers), ...Object.values(demo.imageTiers), ...Object.values(demo.speechTiers)]) {
      for (const id of chain) expect(demo.models).toHaveProperty([id]);
    }
  });
});

test("reports an error if the configuration file doesn't exist", () => {
  expect(() => readConfigSource({ GATEWAY_CONFIG: '/nowhere/gateway.yaml' })).toThrow('/nowhere/gateway.yaml: cannot be read: ENOENT');
});

describe('secrets in files', () => {
  const folder = mkdtempSync(join(tmpdir(), 'gateway-secrets-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const write = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };

  test('reads the value of a variable NAME from the file that NAME_FILE names', () => {
    const env = {
      GATEWAY_CONFIG: write('gateway.yaml', `providers: { openai: { base_url: https://a/v1, api_key: "\${VENDOR_KEY}", dialect: chat } }`),
      VENDOR_KEY_FILE: write('vendor', 'sk-vendor\n'),
      DATABASE_URL_FILE: write('url', 'postgres://a:b@c/d\n'),
      GATEWAY_ADMIN_TOKEN_FILE: write('tokens', `${'n'.repeat(16)}\n${'o'.repeat(16)}\n`),
      UNRELATED_FILE: '/nowhere',
    };
    expect(loadConfig(readConfigSource(env))).toMatchObject({
      providers: { openai: { apiKey: 'sk-vendor' } },
      server: { databaseUrl: 'postgres://a:b@c/d' },
      adminTokens: ['n'.repeat(16), 'o'.repeat(16)],
    });
  });

  test('reports missing, empty and multi-line secret files in one error', () => {
    const env = {
      GATEWAY_CONFIG: write('minimal.yaml', `${minimal}colour: red\n`),
      ANTHROPIC_API_KEY_FILE: join(folder, 'absent'),
      OPENAI_API_KEY_FILE: write('lines', 'sk-hunter2\nsk-hunter3'),
      TEMPORAL_API_KEY_FILE: write('empty', '\n'),
      DATABASE_URL: 'postgres://a:hunter4@c/d',
      DATABASE_URL_FILE: write('secret', 'hunter5'),
      GATEWAY_ADMIN_TOKEN_FILE: write('short', `${'n'.repeat(16)}\nhunter6`),
    };
    const error = (() => {
      try {
        return loadConfig(readConfigSource(env));
      } catch (thrown) {
        return thrown;
      }
    })();
    expect(error).toBeInstanceOf(ConfigError);
    const { errors } = error as ConfigError;
    expect(new Set(errors)).toEqual(
      new Set([
        `${join(folder, 'minimal.yaml')}:3 colour: there is no such setting`,
        expect.stringMatching(/^ANTHROPIC_API_KEY_FILE: cannot read \S+absent: ENOENT/),
        'GATEWAY_ADMIN_TOKEN: must have at least 16 characters; separate several tokens with spaces or line breaks',
        'DATABASE_URL, DATABASE_URL_FILE: set only one of them',
        `OPENAI_API_KEY_FILE: ${join(folder, 'lines')} must contain a single line`,
        `TEMPORAL_API_KEY_FILE: ${join(folder, 'empty')} is empty`,
      ]),
    );
    expect(errors.join()).not.toMatch(/hunter\d/);
  });

  test("doesn't report a variable as missing if its secret file can't be read", () => {
    const absent = join(folder, 'absent');
    const files = { DATABASE_URL_FILE: absent, GATEWAY_ADMIN_TOKEN_FILE: absent, OPENAI_API_KEY_FILE: absent };
    const errorsOf = (text: string, env: Record<string, string>): readonly string[] => {
      const source = { GATEWAY_CONFIG: write('bad.yaml', text), GATEWAY_TEMPORAL: 'off', ...env };
      try {
        loadConfig(readConfigSource(source, 'serve'));
      } catch (error) {
        return (error as ConfigError).errors.map((line) => line.split(':', 1)[0] ?? '');
      }
      return [];
    };
    expect(errorsOf('', files).toSorted()).toEqual(Object.keys(files).toSorted());
    const text = `providers: { a: { base_url: https://a/v1, api_key: "\${VENDOR_KEY}", dialect: chat } }`;
    expect(errorsOf(text, { ...files, VENDOR_KEY_FILE: absent }).toSorted()).toEqual([...Object.keys(files), 'VENDOR_KEY_FILE'].toSorted());
  });
});

describe('cors.origins', () => {
  test('accepts exact origins or * in cors.origins', () => {
    expect(load(minimal).corsOrigins).toEqual([]);
    const origins = ['https://app.example.com', 'http://localhost:3000', '*'];
    expect(load(`${minimal}cors: { origins: ${JSON.stringify(origins)} }\n`).corsOrigins).toEqual(origins);
  });

  test('rejects CORS origins that no browser ever sends', () => {
    const wrong = [
      'https://app.example.com/',
      'https://App.example.com',
      'https://a.example:443',
      'app.example.com',
      'https://*.a.example',
      'null',
      '',
    ];
    const errors = errorsOf(`${minimal}cors: { origins: ${JSON.stringify(wrong)}, credentials: true }\n`);
    expect(errors).toHaveLength(wrong.length + 1);
    for (const at of wrong.keys()) expect(errors.join()).toContain(`cors.origins.${at}: must be an origin such as https://app.example.com`);
  });
});

describe('sign-in', () => {
  const oidc = {
    OIDC_ISSUER: 'https://id.example.com/realm',
    OIDC_CLIENT_ID: 'gateway',
    GATEWAY_PUBLIC_URL: 'https://gateway.example.com/',
  };

  test('environment variables override the sign-in settings in gateway.yaml', () => {
    expect(load(minimal)).toMatchObject({ publicUrl: null, oidc: null });
    const file = `${minimal}public_url: http://10.0.0.5:8080
oidc: { issuer: https://old.example.com, client_id: file, client_secret: s3cret, allowed_domains: [Example.com] }
`;
    expect(load(file, oidc)).toMatchObject({
      publicUrl: 'https://gateway.example.com',
      oidc: { issuer: 'https://id.example.com/realm', clientId: 'gateway', clientSecret: 's3cret', allowedDomains: ['example.com'] },
    });
  });

  test.each([
    [{ ...oidc, OIDC_ISSUER: 'http://id.example.com' }, ['OIDC_ISSUER']],
    [{ ...oidc, OIDC_CLIENT_ID: '' }, ['OIDC_CLIENT_ID']],
    [{ ...oidc, GATEWAY_PUBLIC_URL: '' }, ['GATEWAY_PUBLIC_URL']],
    [{ ...oidc, GATEWAY_PUBLIC_URL: 'https://gateway.example.com/path' }, ['GATEWAY_PUBLIC_URL']],
    [{ ...oidc, OIDC_ALLOWED_DOMAINS: 'example.com, @b' }, ['OIDC_ALLOWED_DOMAINS']],
    [{ OIDC_CLIENT_SECRET: 's3cret', OIDC_ALLOWED_DOMAINS: 'example.com' }, ['OIDC_CLIENT_SECRET', 'OIDC_ALLOWED_DOMAINS']],
  ])("rejects %j with errors at %j that don't contain the secret", (env, expected) => {
    const errors = errorsOf(minimal, env);
    expect(errors.map((error) => error.split(':', 1)[0])).toEqual(expected);
    expect(errors.join()).not.toContain('s3cret');
  });

  test('reports an invalid sign-in setting in gateway.yaml with its line number', () => {
    expect(errorsOf(`${minimal}public_url: gateway\noidc: { client_id: a, colour: red }\n`)).toEqual([
      'gateway.yaml:4 oidc.colour: there is no such setting',
      expect.stringContaining('gateway.yaml:3 public_url: must be an address'),
      expect.stringContaining('requires the issuer'),
    ]);
  });
});
