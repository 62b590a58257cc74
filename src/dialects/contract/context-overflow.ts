/** Recognizes the errors by which vendors reject a prompt that is too long for the model's context window. Pure. */

/** Codes and types: OpenAI and compatible vendors, llama.cpp, z.ai. */
const overflowNames: ReadonlySet<string | null> = new Set([
  'context_length_exceeded',
  'context_window_exceeded',
  'exceed_context_size_error',
  'model_context_window_exceeded',
]);

/** Phrases in messages. Most vendors have no code for it, and some send `invalid_request_error` for everything. */
const overflowPhrases = new RegExp(
  [
    'maximum context length', // OpenAI, vLLM, DeepSeek, Mistral, SGLang
    'exceeds the context window', // OpenAI responses
    'input tokens exceed the configured limit', // OpenAI
    'prompt is too long', // Anthropic
    'exceed context limit', // Anthropic, with max_tokens
    'exceeds the maximum number of tokens allowed', // Google
    'maximum prompt length', // xAI
    'reduce the length of the messages', // Groq
    'current length is \\d+ while limit is', // Cerebras
    'too many tokens', // Cohere
    'exceeded model token limit', // Moonshot
    'context window exceeds limit', // MiniMax
    'exceeded this model context window', // Cloudflare
    'range of input length should be', // DashScope
    'prompt exceeds max length', // z.ai
    'input is too long for requested model', // Bedrock
    "longer than the model's context length", // SGLang
    'longer than the maximum model length', // vLLM
    'exceeds the available context size', // llama.cpp
    'greater than the context length', // LM Studio
    'exceeded (?:max )?context length', // Ollama
    'tokens \\+ `max_new_tokens` must be', // Text Generation Inference
  ].join('|'),
  'i',
);

interface ErrorTexts {
  readonly message: string | null;
  readonly code: string | null;
  readonly type: string | null;
}

export function isContextOverflow({ message, code, type }: ErrorTexts): boolean {
  return overflowNames.has(code) || overflowNames.has(type) || (message !== null && overflowPhrases.test(message));
}

const windowInMessage =
  /(?:(?<!current )length (?:is|of)|limit is|limit of|tokens allowed|context size|context length|window limit|token limit:|model with|>) \(?([\d,]{3,12})/i;

/** The window in tokens that the message of an overflow names; null when it names none. */
export function parseExceededWindow(message: string): number | null {
  const digits = windowInMessage.exec(message)?.[1]?.replaceAll(',', '') ?? '';
  return digits === '' ? null : Number(digits);
}
