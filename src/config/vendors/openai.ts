/**
 * OpenAI with its models and list prices. See `../starter-models.ts` for units and dates.
 *
 * If a call has more than 272,000 input tokens, the newer models charge twice the input price and 1.5 times the output
 * price for the whole call.
 *
 * Models without reasoning reject `reasoning_effort`. They also reject a call if its prompt and the requested output
 * together exceed `context_window`.
 */
import type { ModelValues } from '../file-schema.ts';
import type { Models, VendorDescription } from './vendor-description.ts';

/** OpenAI accepts `fast` as another name of `priority`, and reports `priority`. */
const tiers = { service_tiers: { priority: '2', fast: '2', flex: '0.5' } };
const large = { max_input_tokens: 922_000, max_output_tokens: 128_000, ...tiers };
const medium = { max_input_tokens: 272_000, max_output_tokens: 128_000, ...tiers };
/** OpenAI charges more for `web_search_preview` if the model has no reasoning. */
const plain = { reasons: false, per_tool_use: { web_search_preview: '0.025' } };
const million = {
  ...{ max_input_tokens: 1_047_576, context_window: 1_047_576, max_output_tokens: 32_768, ...plain },
  service_tiers: { priority: '1.75', fast: '1.75' },
};
const small = {
  ...{ max_input_tokens: 128_000, context_window: 128_000, max_output_tokens: 16_384, ...plain },
  service_tiers: { priority: '1.7', fast: '1.7' },
};
const reasoning = { max_input_tokens: 200_000, max_output_tokens: 100_000, service_tiers: { priority: '1.75', fast: '1.75', flex: '0.5' } };

/**
 * OpenAI charges for a code interpreter container once per session. For a generated image, it charges for the tokens of
 * an image model, so we use the price of the largest image in high quality.
 */
const toolPrices = {
  ...{ web_search: '0.01', web_search_preview: '0.01', file_search: '0.0025', code_interpreter: '0.03', image_generation: '0.25' },
  // OpenAI only charges for the tokens that these tools use.
  ...{ mcp: '0', tool_search: '0' },
};

/**
 * The output of image models consists of image tokens. If a caller edits an image, that image counts as input, also in
 * image tokens.
 */
const image = {
  ...{ kind: 'images', input: '5', image_input: '8', cached_input: '1.25', output: '30' },
  takes: ['quality', 'background', 'output_format', 'output_compression', 'moderation', 'safety_identifier', 'user'],
} as const satisfies ModelValues;

const undatedModels: Models = {
  'gpt-6.2-astra': {
    ...{ input: '8', cached_input: '0.40', cache_write: '10', output: '40', ...large },
    above_tokens: { 272000: { input: '16', cached_input: '0.80', cache_write: '20', output: '60' } },
  },
  'gpt-6.2-sol': {
    ...{ input: '2', cached_input: '0.10', cache_write: '2.50', output: '10', ...large },
    above_tokens: { 272000: { input: '4', cached_input: '0.20', cache_write: '5', output: '15' } },
  },
  'gpt-6.1-sol': {
    ...{ input: '2', cached_input: '0.10', cache_write: '2.50', output: '10', ...large },
    above_tokens: { 272000: { input: '4', cached_input: '0.20', cache_write: '5', output: '15' } },
  },
  'gpt-6.1-terra': {
    ...{ input: '1', cached_input: '0.05', cache_write: '1.25', output: '5', ...large },
    above_tokens: { 272000: { input: '2', cached_input: '0.10', cache_write: '2.50', output: '7.50' } },
  },
  'gpt-6-astra': {
    ...{ input: '10', cached_input: '1', cache_write: '12.50', output: '50', ...large },
    above_tokens: { 272000: { input: '20', cached_input: '2', cache_write: '25', output: '75' } },
  },
  'gpt-6-sol': {
    ...{ input: '2', cached_input: '0.20', cache_write: '2.50', output: '10', ...large },
    above_tokens: { 272000: { input: '4', cached_input: '0.40', cache_write: '5', output: '15' } },
  },
  'gpt-6-luna': {
    ...{ input: '0.10', cached_input: '0.01', cache_write: '0.125', output: '0.50', ...large },
    above_tokens: { 272000: { input: '0.20', cached_input: '0.02', cache_write: '0.25', output: '0.75' } },
  },
  'gpt-5.6-sol': {
    ...{ input: '4', cached_input: '0.40', cache_write: '5', output: '20', ...large },
    above_tokens: { 272000: { input: '8', cached_input: '0.80', cache_write: '10', output: '30' } },
  },
  'gpt-5.6-terra': {
    ...{ input: '2', cached_input: '0.20', cache_write: '2.50', output: '12', ...large },
    above_tokens: { 272000: { input: '4', cached_input: '0.40', cache_write: '5', output: '18' } },
  },
  'gpt-5.6-luna': {
    ...{ input: '0.20', cached_input: '0.02', cache_write: '0.25', output: '1.20', ...large },
    above_tokens: { 272000: { input: '0.40', cached_input: '0.04', cache_write: '0.50', output: '1.80' } },
  },
  'gpt-5.5': {
    ...{ input: '5', cached_input: '0.50', output: '30', ...large },
    service_tiers: { priority: '2.5', fast: '2.5', flex: '0.5' },
    above_tokens: { 272000: { input: '10', cached_input: '1', output: '45' } },
  },
  'gpt-5.4': {
    ...{ input: '2.50', cached_input: '0.25', output: '15', ...large },
    above_tokens: { 272000: { input: '5', cached_input: '0.50', output: '22.50' } },
  },
  'gpt-5.4-mini': { input: '0.75', cached_input: '0.075', output: '4.50', ...medium },
  'gpt-5.4-nano': { input: '0.20', cached_input: '0.02', output: '1.25', ...medium },
  'gpt-5.2': { input: '1.75', cached_input: '0.175', output: '14', ...medium },
  'gpt-5.1': { input: '1.25', cached_input: '0.125', output: '10', ...medium },
  'gpt-5': { input: '1.25', cached_input: '0.125', output: '10', ...medium },
  'gpt-5-mini': {
    input: '0.25',
    cached_input: '0.025',
    output: '2',
    ...medium,
    service_tiers: { priority: '1.8', fast: '1.8', flex: '0.5' },
  },
  'gpt-5-nano': { input: '0.05', cached_input: '0.005', output: '0.40', ...medium },
  'gpt-4.1': { input: '2', cached_input: '0.50', output: '8', ...million },
  'gpt-4.1-mini': { input: '0.40', cached_input: '0.10', output: '1.60', ...million },
  'gpt-4o': { input: '2.50', cached_input: '1.25', output: '10', ...small },
  'gpt-4o-mini': {
    input: '0.15',
    cached_input: '0.075',
    output: '0.60',
    ...small,
    service_tiers: { priority: '1.666667', fast: '1.666667' },
  },
  o3: { input: '2', cached_input: '0.50', output: '8', ...reasoning },
  'text-embedding-3-small': { kind: 'embeddings', input: '0.02', max_input_tokens: 8_191 },
  'text-embedding-3-large': { kind: 'embeddings', input: '0.13', max_input_tokens: 8_191 },
  'text-embedding-ada-002': { kind: 'embeddings', input: '0.10', max_input_tokens: 8_191 },
  'omni-moderation-latest': { kind: 'moderations' },
  'gpt-image-2.6-flare': { ...image, takes: [...image.takes, 'complexity'] },
  'gpt-image-2.6-sunburst': { ...image, takes: [...image.takes, 'complexity'] },
  'gpt-image-2.5-flare': image,
  'gpt-image-2.5-sunburst': image,
  'gpt-image-2': image,
  'gpt-image-1.5': { ...image, output: '32' },
  'gpt-image-1-mini': { ...image, input: '2', image_input: '2.50', cached_input: '0.20', output: '8' },
  'tts-1': { per_million_characters: '15', takes: ['speed'] },
  'tts-1-hd': { per_million_characters: '30', takes: ['speed'] },
  'gpt-4o-mini-tts': { kind: 'speech', input: '0.60', output: '12', takes: ['speed', 'instructions'] },
  'gpt-transcribe': { kind: 'transcriptions', per_second: '0.000075' },
  'gpt-4o-transcribe': { kind: 'transcriptions', input: '2.50', output: '10' },
  'gpt-4o-transcribe-diarize': { kind: 'transcriptions', input: '2.50', output: '10' },
  'gpt-4o-mini-transcribe': { kind: 'transcriptions', input: '1.25', output: '5' },
  'whisper-1': { kind: 'transcriptions', per_second: '0.0001' },
};

/** Dated versions of models. They cost the same as the model without a date. */
const versions: readonly string[] = [
  ...['gpt-5.5-2026-04-23', 'gpt-5.4-mini-2026-03-17', 'gpt-5.4-nano-2026-03-17', 'gpt-5.2-2025-12-11', 'gpt-5.1-2025-11-13'],
  ...['gpt-5-2025-08-07', 'gpt-5-mini-2025-08-07', 'gpt-5-nano-2025-08-07'],
  ...['gpt-4.1-2025-04-14', 'gpt-4.1-mini-2025-04-14'],
  ...['gpt-4o-2024-11-20', 'gpt-4o-2024-08-06', 'gpt-4o-mini-2024-07-18'],
  ...['o3-2025-04-16', 'gpt-image-2-2026-04-21', 'gpt-image-2.5-flare-2026-09-08', 'gpt-image-2.5-sunburst-2026-09-08'],
  ...['gpt-4o-mini-tts-2025-12-15', 'gpt-4o-mini-transcribe-2025-12-15'],
];
const dateLength = '-2026-04-23'.length;

const models: Models = {
  ...undatedModels,
  ...Object.fromEntries(versions.map((name) => [name, undatedModels[name.slice(0, -dateLength)] ?? {}])),
};

/**
 * Each tier starts with a model that accepts `temperature`, `max_tokens` and tools on the chat route, because existing
 * clients send them and newer models reject some of them. OpenAI will shut down gpt-4o-mini and gpt-4.1 on 2027-01-14,
 * after which the second model takes over.
 */
const starterTiers = {
  tiers: {
    standard: ['openai/gpt-4o-mini', 'openai/gpt-5.4-mini'],
    strong: ['openai/gpt-4.1', 'openai/gpt-5.4'],
    trivial: ['openai/gpt-4o-mini', 'openai/gpt-5.4-nano'],
    embed: ['openai/text-embedding-3-small'],
  },
  image_tiers: { standard: ['openai/gpt-image-2.6-flare'] },
  speech_tiers: { standard: ['openai/tts-1'] },
  // Only whisper-1 can translate.
  transcription_tiers: { standard: ['openai/gpt-transcribe'], translate: ['openai/whisper-1'] },
};

export const openai: VendorDescription = {
  name: 'openai',
  title: 'OpenAI',
  documentation: 'https://platform.openai.com/docs/api-reference',
  baseUrl: 'https://api.openai.com/v1',
  dialect: 'chat',
  responses: 'native',
  requests: { maxTokensField: 'max_completion_tokens' },
  models,
  toolPrices,
  tableNames: ['openai'],
  starter: { variable: 'OPENAI_API_KEY', values: starterTiers },
};
