/**
 * What the gateway offers without a configuration file: vendors whose API key is in the environment, their common models with list prices
 * (USD per million tokens unless the name says otherwise), and the demo vendor when there is no key at all. Written as gateway.yaml would
 * write it and built by the same code; prices change, and a file's own rows win.
 */
import type { Environment } from './environment.ts';
import type { FileValues } from './file-schema.ts';

const vendors: readonly { readonly variable: string; readonly values: (apiKey: string) => FileValues }[] = [
  {
    variable: 'OPENAI_API_KEY',
    values: (apiKey) => ({
      providers: { openai: { base_url: 'https://api.openai.com/v1', api_key: apiKey, dialect: 'chat' } },
      models: {
        'openai/gpt-4o-mini': {
          input: '0.15',
          cached_input: '0.075',
          output: '0.60',
          max_input_tokens: 128_000,
          max_output_tokens: 16_384,
        },
        'openai/gpt-4o': { input: '2.50', cached_input: '1.25', output: '10.00', max_input_tokens: 128_000, max_output_tokens: 16_384 },
        'openai/gpt-4.1': { input: '2.00', cached_input: '0.50', output: '8.00', max_input_tokens: 1_047_576, max_output_tokens: 32_768 },
        'openai/gpt-4.1-mini': {
          input: '0.40',
          cached_input: '0.10',
          output: '1.60',
          max_input_tokens: 1_047_576,
          max_output_tokens: 32_768,
        },
        'openai/gpt-4.1-nano': {
          input: '0.10',
          cached_input: '0.025',
          output: '0.40',
          max_input_tokens: 1_047_576,
          max_output_tokens: 32_768,
        },
        'openai/gpt-5': { input: '1.25', cached_input: '0.125', output: '10.00', max_input_tokens: 272_000, max_output_tokens: 128_000 },
        'openai/gpt-5-mini': {
          input: '0.25',
          cached_input: '0.025',
          output: '2.00',
          max_input_tokens: 272_000,
          max_output_tokens: 128_000,
        },
        'openai/text-embedding-3-small': { kind: 'embeddings', input: '0.02', max_input_tokens: 8_191 },
        'openai/text-embedding-3-large': { kind: 'embeddings', input: '0.13', max_input_tokens: 8_191 },
        'openai/omni-moderation-latest': { kind: 'moderations', input: '0' },
        'openai/gpt-image-1': { kind: 'images', input: '5.00', output: '40.00' },
        'openai/dall-e-3': { per_image: '0.04' },
        'openai/tts-1': { per_million_characters: '15.00' },
      },
      tiers: {
        standard: ['openai/gpt-4o-mini'],
        strong: ['openai/gpt-4.1'],
        trivial: ['openai/gpt-4.1-nano'],
        embed: ['openai/text-embedding-3-small'],
      },
      image_tiers: { standard: ['openai/gpt-image-1'] },
      speech_tiers: { standard: ['openai/tts-1'] },
    }),
  },
  {
    variable: 'ANTHROPIC_API_KEY',
    values: (apiKey) => ({
      providers: { anthropic: { base_url: 'https://api.anthropic.com/v1', api_key: apiKey, dialect: 'messages' } },
      models: {
        'anthropic/claude-haiku-4-5': {
          input: '1.00',
          cached_input: '0.10',
          output: '5.00',
          max_input_tokens: 200_000,
          max_output_tokens: 64_000,
        },
        'anthropic/claude-sonnet-4-5': {
          input: '3.00',
          cached_input: '0.30',
          output: '15.00',
          max_input_tokens: 200_000,
          max_output_tokens: 64_000,
        },
        'anthropic/claude-opus-4-5': {
          input: '5.00',
          cached_input: '0.50',
          output: '25.00',
          max_input_tokens: 200_000,
          max_output_tokens: 64_000,
        },
      },
      tiers: {
        standard: ['anthropic/claude-haiku-4-5'],
        strong: ['anthropic/claude-sonnet-4-5'],
        trivial: ['anthropic/claude-haiku-4-5'],
      },
    }),
  },
];

/** The values for the keys that are in the environment, joined; null when there is none. */
export function vendorDefaults(env: Environment): FileValues | null {
  const found = vendors.flatMap(({ variable, values }) => {
    const apiKey = env[variable]?.trim();
    return apiKey ? [values(apiKey)] : [];
  });
  return found.length === 0 ? null : found.reduce(join);
}

/** Values of the demo vendor. Its models have prices, so that spending and ceilings can be seen; it asks for a key, any will do. */
export function demoDefaults(demoUrl: string): FileValues {
  const url = demoUrl.replace(/\/+$/, '');
  return {
    providers: {
      demo: { base_url: `${url}/v1`, api_key: 'demo', dialect: 'chat' },
      'demo-messages': { base_url: `${url}/v1`, api_key: 'demo', dialect: 'messages' },
      'demo-video': { base_url: `${url}/v1beta`, api_key: 'demo', dialect: 'gemini' },
    },
    models: {
      'demo/echo': { input: '1.00', cached_input: '0.10', output: '4.00', max_output_tokens: 16_384 },
      'demo/echo-small': { input: '0.20', cached_input: '0.02', output: '0.80', max_output_tokens: 16_384 },
      'demo-messages/echo': { input: '1.00', cached_input: '0.10', output: '4.00', max_output_tokens: 16_384 },
      'demo-messages/echo-small': { input: '0.20', cached_input: '0.02', output: '0.80', max_output_tokens: 16_384 },
      'demo/embed': { kind: 'embeddings', input: '0.02' },
      'demo/moderation': { kind: 'moderations', input: '0.01' },
      'demo/rerank': { per_search: '0.001' },
      'demo/image': { per_image: '0.01' },
      'demo/speech': { per_million_characters: '10.00' },
      'demo-video/clip': { per_second: '0.05' },
    },
    tiers: {
      standard: ['demo/echo', 'demo-messages/echo'],
      strong: ['demo/echo', 'demo-messages/echo'],
      trivial: ['demo/echo-small', 'demo-messages/echo-small'],
      embed: ['demo/embed'],
    },
    image_tiers: { standard: ['demo/image'] },
    speech_tiers: { standard: ['demo/speech'] },
    defaults: { image_provider: 'demo', speech_provider: 'demo', video_provider: 'demo-video', video_model: 'clip' },
  };
}

/** Joins the values of two vendors; chains of a tier follow each other, so that one vendor stands in for the other. */
function join(left: FileValues, right: FileValues): FileValues {
  return {
    providers: { ...left.providers, ...right.providers },
    models: { ...left.models, ...right.models },
    tiers: joinTiers(left.tiers, right.tiers),
    image_tiers: joinTiers(left.image_tiers, right.image_tiers),
    speech_tiers: joinTiers(left.speech_tiers, right.speech_tiers),
  };
}

function joinTiers(left: FileValues['tiers'] = {}, right: FileValues['tiers'] = {}): Record<string, string[]> {
  const names = new Set([...Object.keys(left), ...Object.keys(right)]);
  return Object.fromEntries([...names].map((name) => [name, [...(left[name] ?? []), ...(right[name] ?? [])]]));
}
