/** Recognizes the errors that vendors return when a prompt is too long for the model's context window. */

/** Error codes and types that OpenAI and compatible vendors, llama.cpp and z.ai use. */
const overflowNames: ReadonlySet<string | null> = new Set([
  'context_length_exceeded',
  'context_window_exceeded',
  'exceed_context_size_error',
  'model_context_window_exceeded',
]);

/**
 * Most vendors don't have an error code for prompts that are too long, or send `invalid_request_error` for everything,
 * so we have to search the message as well.
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

/** Parameters that can contain the prompt. If an error names any other parameter, the prompt wasn't too long. */
const promptParams = /message|input|prompt|content|token/i;
/**
 * Matches quotations, which we remove before we search the message. Vendors quote values from the request, and a phrase
 * in such a value doesn't prove anything. We keep a quoted `message`, because that's the message of another vendor's
 * error. A quotation has to follow a space or a bracket, because some of the phrases contain apostrophes.
 */
const quotations = /(?<=^|[\s([{:,=])(?<!["']message["']: ?)(?:"[^"]*"|'[^']*')/g;

export function isContextOverflow({ message, code, type, param }: ErrorTexts): boolean {
  if (overflowNames.has(code) || overflowNames.has(type)) return true;
  if (message === null || (param !== null && !promptParams.test(param))) return false;
  return overflowPhrases.test(message.replace(quotations, ''));
}

const windowInMessage =
  /(?:(?<!current )length (?:is|of)|limit is|limit of|tokens allowed|context size|context length|window limit|token limit:|model with|>) \(?([\d,]{3,12})/i;

/**
 * Extracts the size of the context window from a vendor's message, in tokens. Returns null if the message doesn't
 * mention it.
 */
export function parseExceededWindow(message: string): number | null {
  const digits = windowInMessage.exec(message)?.[1]?.replaceAll(',', '') ?? '';
  return digits === '' ? null : Number(digits);
}
