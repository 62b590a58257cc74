/** Recognizes the errors that vendors return when a prompt is too long for the model's context window. */

/** Error codes and types that OpenAI and compatible vendors, llama.cpp and z.ai use. */
const overflowNames: ReadonlySet<string | null> = new Set([
  'context_length_exceeded',
  'context_window_exceeded',
  'exceed_context_size_error',
  'model_context_window_exceeded',
]);

/**
 * Most vendors have no code of their own for this, or send `invalid_request_error` for everything. So we search the
 * message for phrases as well.
 */
const overflowPhrases = new RegExp(
  [
    'maximum context length', // OpenAI, vLLM, DeepSeek, Mistral, SGLang
    'exceeds the context window', // OpenAI responses
    'input tokens exceed the configured limit', // OpenAI
    'prompt is too long', // Anthropic
    'exceed context limit', // Anthropic, with max_tokens
    'input token count.{0,40} exceeds the maximum number of tokens allowed', // Google
    'maximum prompt length', // xAI
    'reduce the length of the messages', // Groq
    'current length is \\d+ while limit is', // Cerebras
    'too many tokens: (?:total number|size limit)', // Cohere
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
  readonly param: string | null;
}

/**
 * Matches the names of parameters that contain the prompt. If the error names any other parameter, the prompt's length
 * isn't the problem.
 */
const promptParams = /message|input|prompt|content|token/i;
/**
 * Matches text that the vendor quotes, such as a value from the request, so that we can ignore it. Quoted messages of
 * another vendor's error don't match. A quotation has to follow a space or a bracket, because the phrases themselves
 * contain apostrophes.
 */
const quotations = /(?<=^|[\s([{:,=])(?<!["']message["']: ?)(?:"[^"]*"|'[^']*')/g;

export function isContextOverflow({ message, code, type, param }: ErrorTexts): boolean {
  if (overflowNames.has(code) || overflowNames.has(type)) return true;
  if (message === null || (param !== null && !promptParams.test(param))) return false;
  return overflowPhrases.test(message.replace(quotations, ''));
}

const windowInMessage =
  /(?:(?<!current )length (?:is|of)|limit is|limit of|tokens allowed|context size|context length|window limit|token limit:|model with|>) \(?([\d,]{3,12})/i;

/** Returns the size of the context window in tokens if the vendor's message mentions it, or else null. */
export function parseExceededWindow(message: string): number | null {
  const digits = windowInMessage.exec(message)?.[1]?.replaceAll(',', '') ?? '';
  return digits === '' ? null : Number(digits);
}
