import { anthropic } from './anthropic.ts';
import { azureOpenai } from './azure-openai.ts';
import { azureOpenaiDeployments } from './azure-openai-deployments.ts';
import { bedrockClaude } from './bedrock-claude.ts';
import { bedrockMantle } from './bedrock-mantle.ts';
import { bedrockMantleClaude } from './bedrock-mantle-claude.ts';
import { bedrockOpenai } from './bedrock-openai.ts';
import { cerebras } from './cerebras.ts';
import { claudeOnAws } from './claude-on-aws.ts';
import { cohere } from './cohere.ts';
import { dashscope } from './dashscope.ts';
import { deepgram } from './deepgram.ts';
import { deepinfra } from './deepinfra.ts';
import { deepseek } from './deepseek.ts';
import { elevenlabs } from './elevenlabs.ts';
import { fireworks } from './fireworks.ts';
import { foundryClaude } from './foundry-claude.ts';
import { gemini } from './gemini.ts';
import { groq } from './groq.ts';
import { hyperbolic } from './hyperbolic.ts';
import { jina } from './jina.ts';
import { lmStudio } from './lm-studio.ts';
import { minimax } from './minimax.ts';
import { mistral } from './mistral.ts';
import { moonshot } from './moonshot.ts';
import { novita } from './novita.ts';
import { nvidia } from './nvidia.ts';
import { ollama } from './ollama.ts';
import { openai } from './openai.ts';
import { openrouter } from './openrouter.ts';
import { perplexity } from './perplexity.ts';
import { sambanova } from './sambanova.ts';
import { together } from './together.ts';
import type { VendorDescription } from './vendor-description.ts';
import { vertexClaude } from './vertex-claude.ts';
import { vertexGemini } from './vertex-gemini.ts';
import { vllm } from './vllm.ts';
import { voyage } from './voyage.ts';
import { xai } from './xai.ts';
import { zai } from './zai.ts';

/**
 * We use the first vendor that matches an address. If two vendors share a host, the one with the more specific path has
 * to come first.
 */
export const knownVendors: readonly VendorDescription[] = [
  openai,
  anthropic,
  gemini,
  azureOpenaiDeployments,
  azureOpenai,
  foundryClaude,
  bedrockOpenai,
  bedrockClaude,
  bedrockMantleClaude,
  bedrockMantle,
  claudeOnAws,
  vertexGemini,
  vertexClaude,
  mistral,
  deepseek,
  groq,
  xai,
  cohere,
  openrouter,
  together,
  fireworks,
  moonshot,
  zai,
  cerebras,
  jina,
  voyage,
  elevenlabs,
  deepgram,
  nvidia,
  deepinfra,
  perplexity,
  novita,
  hyperbolic,
  sambanova,
  dashscope,
  minimax,
  ollama,
  vllm,
  lmStudio,
];

export function findVendorByName(name: string): VendorDescription | null {
  return knownVendors.find((vendor) => vendor.name === name) ?? null;
}

/** Returns an error message that suggests vendors with a similar name. */
export function explainUnknownVendor(name: string): string {
  const names = knownVendors.map((vendor) => vendor.name);
  const wanted = name.toLowerCase();
  const similar = wanted === '' ? [] : names.filter((known) => known.includes(wanted) || wanted.includes(known));
  const suggestion = similar.length > 0 ? `did you mean ${similar.join(' or ')}?` : `known ones are ${names.join(', ')}`;
  return `there is no vendor ${name}; ${suggestion}`;
}

export function findVendorByAddress(address: string): VendorDescription | null {
  if (!URL.canParse(address)) return null;
  const { hostname, pathname } = new URL(address);
  return (
    knownVendors.find((vendor) => hostsOf(vendor).some((host) => isHost(hostname, host)) && (vendor.path?.test(pathname) ?? true)) ?? null
  );
}

function hostsOf({ hosts, baseUrl }: VendorDescription): readonly string[] {
  return hosts ?? [new URL(baseUrl).hostname];
}

function isHost(hostname: string, pattern: string): boolean {
  const [prefix = '', suffix] = pattern.split('*');
  if (suffix === undefined) return hostname === pattern;
  return hostname.startsWith(prefix) && hostname.endsWith(suffix) && hostname.length > prefix.length + suffix.length;
}
