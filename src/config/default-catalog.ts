/**
 * The configuration that applies if there is no configuration file. We look for API keys in the environment, and add a
 * provider and tiers for each vendor whose key we find. The models come from the starter catalog. If there are no keys,
 * the demo vendor is used. The values have the same format as gateway.yaml, so we process them with the same code.
 */

import { ownValue } from '../core/own-value.ts';
import { trimEnd } from '../core/trim.ts';
import type { Environment } from './environment.ts';
import type { FileValues } from './file-schema.ts';
import { knownVendors } from './vendors/known-vendors.ts';

/**
 * Returns the default configuration for the vendors whose API keys are in the environment. If there are several
 * vendors, we merge their defaults. Returns null if there are no keys.
 */
export function vendorDefaults(env: Environment): FileValues | null {
  const defaults = knownVendors.flatMap(({ name, starter }): FileValues[] => {
    const apiKey = starter && env[starter.variable]?.trim();
    return apiKey ? [{ ...starter.values, providers: { [name]: { vendor: name, api_key: apiKey } } }] : [];
  });
  return defaults.length === 0 ? null : defaults.reduce(mergeDefaults);
}

/**
 * Returns the values for the demo vendor, which accepts any API key. Its models have prices, so that you can try out
 * costs and ceilings.
 */
export function demoDefaults(demoUrl: string): FileValues {
  const url = trimEnd(demoUrl, '/');
  return {
    providers: {
      demo: {
        base_url: `${url}/v1`,
        api_key: 'demo',
        dialect: 'chat',
        serves: ['chat', 'embeddings', 'moderations', 'rerank', 'images', 'speech', 'transcriptions'],
      },
      'demo-video': { base_url: `${url}/v1beta`, api_key: 'demo', dialect: 'gemini' },
    },
    models: {
      'demo/echo': { input: '1.00', cached_input: '0.10', output: '4.00', max_output_tokens: 16_384 },
      'demo/echo-small': { input: '0.20', cached_input: '0.02', output: '0.80', max_output_tokens: 16_384 },
      'demo/embed': { kind: 'embeddings', input: '0.02' },
      'demo/moderation': { kind: 'moderations', input: '0.01' },
      'demo/rerank': { per_search: '0.001' },
      'demo/image': { per_image: '0.01' },
      'demo/speech': { per_million_characters: '10.00' },
      'demo/transcribe': { kind: 'transcriptions', per_second: '0.0001' },
      'demo-video/clip': { per_second: '0.05' },
    },
    tiers: {
      standard: ['demo/echo'],
      strong: ['demo/echo'],
      trivial: ['demo/echo-small'],
      embed: ['demo/embed'],
    },
    image_tiers: { standard: ['demo/image'] },
    speech_tiers: { standard: ['demo/speech'] },
    transcription_tiers: { standard: ['demo/transcribe'] },
    defaults: {
      image_provider: 'demo',
      speech_provider: 'demo',
      transcription_provider: 'demo',
      video_provider: 'demo-video',
      video_model: 'clip',
    },
  };
}

/**
 * Merges the values of two vendors. If both have a chain for a tier, the second vendor becomes the fallback of the
 * first.
 */
function mergeDefaults(left: FileValues, right: FileValues): FileValues {
  return {
    providers: { ...left.providers, ...right.providers },
    tiers: mergeTiers(left.tiers, right.tiers),
    image_tiers: mergeTiers(left.image_tiers, right.image_tiers),
    speech_tiers: mergeTiers(left.speech_tiers, right.speech_tiers),
    transcription_tiers: mergeTiers(left.transcription_tiers, right.transcription_tiers),
  };
}

function mergeTiers(left: FileValues['tiers'] = {}, right: FileValues['tiers'] = {}): Record<string, string[]> {
  const names = new Set([...Object.keys(left), ...Object.keys(right)]);
  return Object.fromEntries([...names].map((name) => [name, [...(ownValue(left, name) ?? []), ...(ownValue(right, name) ?? [])]]));
}
