import { expect, test } from '@jest/globals';
import { type Config, ConfigError } from '../../src/config/config.ts';
import { demoConfig, loadConfig, withLocalEmbedder } from '../../src/config/load.ts';

const endpoint = { url: 'http://127.0.0.1:1234/v1', token: 'secret' };
const id = 'local/bge-small-en-v1.5';

function load(fileText: string | null, env: Record<string, string> = {}): Config {
  const config = loadConfig({ env, fileText, fileName: 'gateway.yaml' });
  expect(config.warnings).toEqual([]);
  return withLocalEmbedder(config, endpoint);
}

const vendor =
  'providers: { own: { base_url: https://own.example.com/v1, dialect: chat } }\nmodels: { own/e: { kind: embeddings, input: 1 } }\n';

test.each([
  ['with a vendor that has no embeddings', load(null, { ANTHROPIC_API_KEY: 'a' })],
  ['with a file without embeddings', load(vendor)],
  ['with the demo vendor', demoConfig(load(null), 'http://127.0.0.1:1')],
])('the local embedder serves the embed tier for free %s', (_title, config) => {
  expect(config.tiers.embed).toEqual([id]);
  expect(config.models[id]).toMatchObject({ kind: 'embeddings', price: { inputNanos: 0n }, maxInputTokens: 512 });
  expect(config.providers.local).toMatchObject({ baseUrl: endpoint.url, apiKey: endpoint.token, serves: ['embeddings'] });
});

test('adds the local embedder if a tier names one of its models', () => {
  const config = load(`${vendor}tiers: { embed: [own/e], memory-embed: [${id}] }\n`);
  expect([config.tiers.embed, config.providers.local?.name]).toEqual([['own/e'], 'local']);
});

test('the local embedder runs the models that are named in tiers', () => {
  const multilingual = 'local/multilingual-e5-small-q4';
  const one = load(`${vendor}tiers: { embed: [${multilingual}] }\n`, { GATEWAY_LOCAL_EMBEDDER: 'on' });
  expect([one.localEmbedder.models, one.models[id]]).toEqual([['multilingual-e5-small-q4'], undefined]);
  expect(one.models[multilingual]).toMatchObject({ kind: 'embeddings', price: { inputNanos: 0n }, maxInputTokens: 512 });
  const both = load(`${vendor}tiers: { embed: [${multilingual}], memory-embed: [${id}] }\n`);
  expect(both.localEmbedder.models).toEqual(['bge-small-en-v1.5', 'multilingual-e5-small-q4']);
});

test.each([
  ['an embed tier', 'tiers: { embed: [own/e] }\n', 'auto'],
  ['a memory-embed tier', 'tiers: { memory-embed: [own/e] }\n', 'auto'],
  ['the setting turned off', '', 'off'],
])("doesn't run the local embedder with %s", (_title, tiers, mode) => {
  const config = load(vendor + tiers, { GATEWAY_LOCAL_EMBEDDER: mode });
  expect([config.localEmbedder.models, config.providers.local, config.models[id]]).toEqual([[], undefined, undefined]);
});

test("turning the local embedder on doesn't change configured tiers", () => {
  const config = load(`${vendor}tiers: { embed: [own/e] }\n`, { GATEWAY_LOCAL_EMBEDDER: 'on' });
  expect([config.tiers.embed, config.providers.local?.name]).toEqual([['own/e'], 'local']);
});

test('a configured provider named `local` replaces the local embedder', () => {
  const config = load(vendor.replace('own:', 'local:').replace('own/e', 'local/e'), { GATEWAY_LOCAL_EMBEDDER: 'on' });
  expect([config.localEmbedder.models, config.providers.local?.baseUrl]).toEqual([[], 'https://own.example.com/v1']);
});

test('rejects a tier with a local embedder model if the local embedder is off', () => {
  const mistake = () => load(`${vendor}tiers: { embed: [${id}] }\n`, { GATEWAY_LOCAL_EMBEDDER: 'off' });
  expect(mistake).toThrow(new ConfigError(['gateway.yaml:3 tiers.embed.0: there is no provider local']));
  expect(() => load(vendor, { GATEWAY_LOCAL_EMBEDDER: 'maybe' })).toThrow('GATEWAY_LOCAL_EMBEDDER: must be one of auto, on, off');
});
