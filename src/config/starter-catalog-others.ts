/** The models and list prices of other vendors. See starter-catalog.ts for units and dates. */
import type { ModelValues } from './file-schema.ts';

type Models = Readonly<Record<string, ModelValues>>;

const gemini = { max_input_tokens: 1_048_576, max_output_tokens: 65_536 };

/**
 * Text and images use the dialect `chat` (the base URL ends with /v1beta/openai), while videos use the dialect
 * `gemini`.
 */
export const googleModels: Models = {
  'gemini-3.8-flash': { input: '0.75', cached_input: '0.075', output: '3.75', ...gemini },
  'gemini-3.7-flash': { input: '0.75', cached_input: '0.075', output: '3.75', ...gemini },
  'gemini-3.5-flash': { input: '1.50', cached_input: '0.15', output: '9', ...gemini },
  'gemini-3.5-flash-lite': { input: '0.30', cached_input: '0.03', output: '2.50', ...gemini },
  'gemini-3.1-pro-preview': {
    ...{ input: '2', cached_input: '0.20', output: '12', ...gemini },
    above_tokens: { 200000: { input: '4', cached_input: '0.40', output: '18' } },
  },
  'gemini-3.1-flash-lite': { input: '0.25', cached_input: '0.025', output: '1.50', ...gemini },
  'gemini-3-flash-preview': { input: '0.50', cached_input: '0.05', output: '3', ...gemini },
  'gemini-2.5-pro': {
    ...{ input: '1.25', cached_input: '0.125', output: '10', ...gemini },
    above_tokens: { 200000: { input: '2.50', cached_input: '0.25', output: '15' } },
  },
  'gemini-2.5-flash': { input: '0.30', cached_input: '0.03', output: '2.50', ...gemini },
  'gemini-2.5-flash-lite': { input: '0.10', cached_input: '0.01', output: '0.40', ...gemini },
  'gemini-embedding-001': { kind: 'embeddings', input: '0.15', max_input_tokens: 2_048 },
  'gemini-embedding-2': { kind: 'embeddings', input: '0.20', max_input_tokens: 8_192 },
  'veo-3.1-generate-001': { per_second: '0.40' },
  'veo-3.1-fast-generate-001': { per_second: '0.10' },
};

export const mistralModels: Models = {
  'mistral-large-2512': { input: '0.50', cached_input: '0.05', output: '1.50', max_input_tokens: 262_144, reasons: false },
  'mistral-medium-2604': { input: '1.50', cached_input: '0.15', output: '7.50', max_input_tokens: 262_144 },
  'mistral-small-2603': { input: '0.15', cached_input: '0.015', output: '0.60', max_input_tokens: 262_144 },
  'codestral-2508': { input: '0.30', cached_input: '0.03', output: '0.90', max_input_tokens: 128_000, reasons: false },
  'ministral-8b-2512': { input: '0.15', cached_input: '0.015', output: '0.15', max_input_tokens: 262_144, reasons: false },
  'mistral-embed': { kind: 'embeddings', input: '0.10', max_input_tokens: 8_192 },
  'codestral-embed': { kind: 'embeddings', input: '0.15', max_input_tokens: 8_192 },
  'voxtral-mini-latest': { kind: 'transcriptions', per_second: '0.00005' },
};

export const groqModels: Models = {
  'openai/gpt-oss-120b': { input: '0.15', cached_input: '0.075', output: '0.60', max_input_tokens: 131_072, max_output_tokens: 65_536 },
  'openai/gpt-oss-20b': { input: '0.075', cached_input: '0.0375', output: '0.30', max_input_tokens: 131_072, max_output_tokens: 65_536 },
  'qwen/qwen3.8-27b': { input: '0.80', output: '4', max_input_tokens: 131_072, max_output_tokens: 16_384 },
  'whisper-large-v3': { kind: 'transcriptions', per_second: '0.00003083' },
  'whisper-large-v3-turbo': { kind: 'transcriptions', per_second: '0.00001111' },
};

const deepseek = { max_input_tokens: 1_000_000, max_output_tokens: 384_000, takes_reasoning: 'text' } as const;
const deepseekFlash = { input: '0.30', cached_input: '0.006', output: '1.20', ...deepseek };

/** These are the prices of peak hours. At other times the vendor charges half as much. */
export const deepseekModels: Models = {
  'deepseek-v4-pro': { input: '1.32', cached_input: '0.044', output: '3.96', ...deepseek },
  'deepseek-flash': deepseekFlash,
  // The model's former name.
  'deepseek-v4-flash': deepseekFlash,
};

const grok4 = {
  ...{ input: '2', cached_input: '0.50', output: '6', max_input_tokens: 500_000 },
  above_tokens: { 200000: { input: '4', cached_input: '1', output: '12' } },
};

export const xaiToolPrices = {
  ...{ web_search: '0.005', x_search: '0.005', code_interpreter: '0.005', code_execution: '0.005' },
  ...{ file_search: '0.0025', collections_search: '0.0025' },
};

export const xaiModels: Models = {
  'grok-4.6': grok4,
  'grok-4.5': grok4,
  'grok-4.3': {
    ...{ input: '1.25', cached_input: '0.20', output: '2.50', max_input_tokens: 1_000_000 },
    above_tokens: { 200000: { input: '2.50', cached_input: '0.40', output: '5' } },
  },
  'grok-build-0.1': {
    ...{ input: '1', cached_input: '0.20', output: '2', max_input_tokens: 256_000 },
    above_tokens: { 200000: { input: '2', cached_input: '0.40', output: '4' } },
  },
};

export const cohereModels: Models = {
  'command-a-03-2025': { input: '2.50', output: '10', max_input_tokens: 256_000, max_output_tokens: 8_000 },
  'command-r-plus-08-2024': { input: '2.50', output: '10', max_input_tokens: 128_000, max_output_tokens: 4_096 },
  'command-r-08-2024': { input: '0.15', output: '0.60', max_input_tokens: 128_000, max_output_tokens: 4_096 },
  'command-r7b-12-2024': { input: '0.0375', output: '0.15', max_input_tokens: 128_000, max_output_tokens: 4_096 },
  'embed-v4.0': { kind: 'embeddings', input: '0.12', max_input_tokens: 128_000 },
  'embed-english-v3.0': { kind: 'embeddings', input: '0.10', max_input_tokens: 512 },
  'embed-multilingual-v3.0': { kind: 'embeddings', input: '0.10', max_input_tokens: 512 },
  'rerank-v4.0-pro': { per_search: '0.0025', max_input_tokens: 32_768 },
  'rerank-v4.0-fast': { per_search: '0.002', max_input_tokens: 32_768 },
  'rerank-v3.5': { per_search: '0.002', max_input_tokens: 4_096 },
};

export const jinaModels: Models = {
  'jina-reranker-v2-base-multilingual': { kind: 'rerank', input: '0.05', max_input_tokens: 1_024 },
};

export const voyageModels: Models = {
  'voyage-4': { kind: 'embeddings', input: '0.06', max_input_tokens: 32_000 },
  'voyage-3.5': { kind: 'embeddings', input: '0.06', max_input_tokens: 32_000 },
  'voyage-3.5-lite': { kind: 'embeddings', input: '0.02', max_input_tokens: 32_000 },
  'voyage-3-large': { kind: 'embeddings', input: '0.18', max_input_tokens: 32_000 },
  'voyage-code-3': { kind: 'embeddings', input: '0.18', max_input_tokens: 32_000 },
  'rerank-2.5': { kind: 'rerank', input: '0.05', max_input_tokens: 32_000 },
  'rerank-2.5-lite': { kind: 'rerank', input: '0.02', max_input_tokens: 32_000 },
};

export const moonshotModels: Models = {
  'kimi-k2.6': { input: '0.95', cached_input: '0.16', output: '4', max_input_tokens: 262_144, takes_reasoning: 'text' },
};

const zai = { max_input_tokens: 200_000, max_output_tokens: 128_000, takes_reasoning: 'text' } as const;

export const zaiModels: Models = {
  'glm-5.1': { input: '1.40', cached_input: '0.26', output: '4.40', ...zai },
  'glm-4.7': { input: '0.60', cached_input: '0.11', output: '2.20', ...zai },
};

export const cerebrasModels: Models = {
  'gpt-oss-120b': { input: '0.35', output: '0.75', max_input_tokens: 131_072, max_output_tokens: 32_768 },
};

export const elevenlabsModels: Models = {
  eleven_v3: { per_million_characters: '80' },
  eleven_multilingual_v2: { per_million_characters: '80' },
};
