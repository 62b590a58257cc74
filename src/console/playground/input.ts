import { gatewayError } from '../../core/errors.ts';
import { asArray, asObject, asString, isNestedDeeper, isObject } from '../../core/json/narrow.ts';
import { parseJson, parseJsonOrThrow } from '../../core/json/parse.ts';
import { isSubject } from '../../core/subject.ts';
import { PlainTextError } from '../../http/plain-text-error.ts';
import type { PlaygroundPrompt, PlaygroundToolCall, PlaygroundTurn } from '../../pipeline/internal/playground-prompt.ts';

export interface PlaygroundInput {
  readonly model: string;
  /** Another tier or model to compare with, which gets the same prompt. If this is empty, we only use `model`. */
  readonly other: string;
  readonly system: string;
  readonly turns: readonly PlaygroundTurn[];
  /** The new user message. Can be empty if the conversation ends with a user turn or a tool result. */
  readonly prompt: string;
  readonly images: readonly string[];
  readonly temperature: number | null;
  readonly maxTokens: number | null;
  /** Tool definitions as the person has typed them, which should be JSON. */
  readonly tools: string;
  readonly schema: string;
  readonly recalls: boolean;
  readonly subject: string;
}

/** This has to be large enough for images, because the form contains them as `data:` URLs. */
export const maxFormBytes = 12 * 1024 * 1024;
/** Showing longer texts would block the event loop. The texts of images in `data:` URLs don't count. */
const maxTextLength = 512 * 1024;
const maxModelLength = 300;
const maxTurns = 200;
const maxImages = 10;

export interface ParsedInput {
  readonly input: PlaygroundInput;
  readonly prompt: PlaygroundPrompt;
}

/**
 * Throws a 413 if the texts are too long. Other mistakes are shown next to the form, but with texts of this length,
 * that would block the event loop.
 */
export function assertTextLength(fields: URLSearchParams): void {
  let length = 0;
  for (const [name, value] of fields) {
    const urls = name === 'image' ? [value] : name === 'turn_images' ? imagesOf(value) : null;
    length += urls === null || !urls.every(isDataUrl) ? value.length : 0;
  }
  if (length > maxTextLength)
    throw new PlainTextError(413, `the texts are longer than ${maxTextLength} characters; go back, shorten them and submit the form again`);
}

/**
 * Returns the addresses of a turn's images. If the JSON has many more commas than the images that we accept, we don't
 * parse it, but return it as it is, so that it counts as text.
 */
function imagesOf(json: string): readonly string[] {
  if (json.split(',', 4 * maxImages).length === 4 * maxImages) return [json];
  return asArray(parseJson(json)).map((url) => (typeof url === 'string' ? url : json));
}

/** Throws `bad_request` if the input is invalid. */
export function parseInput(fields: URLSearchParams): ParsedInput {
  const input = readInput(fields);
  if (input.model === '') throw invalid('choose a model');
  if (input.model.length > maxModelLength || input.other.length > maxModelLength) throw invalid('the model name is too long');
  const { temperature, maxTokens, subject } = input;
  if (temperature !== null && !(temperature >= 0 && temperature <= 2)) throw invalid('temperature must be a number from 0 to 2');
  if (maxTokens !== null && !(Number.isSafeInteger(maxTokens) && maxTokens > 0))
    throw invalid('max tokens must be a positive whole number');
  if (subject !== '' && !isSubject(subject)) throw invalid('the end user must have 1 to 256 characters and no control characters');
  const prompt = toPrompt(input);
  assertTurns(prompt.turns);
  return { input, prompt };
}

function assertTurns(turns: readonly PlaygroundTurn[]): void {
  if (turns.length === 0 || turns.at(-1)?.role === 'assistant') throw invalid('the message must not be empty');
  if (turns.length > maxTurns) throw invalid(`a conversation may have at most ${maxTurns} turns`);
  for (const [index, { role, text, images, toolCalls }] of turns.entries()) {
    if (role !== 'tool' && text.trim() === '' && images.length === 0 && toolCalls.length === 0)
      throw invalid(`turn ${index + 1} must not be empty`);
    if (images.length > maxImages) throw invalid(`a message may have at most ${maxImages} images`);
    if (!images.every(isImageUrl)) throw invalid('the address of an image must begin with https:// or http://');
  }
}

/** Parses the JSON of tools and schema. Throws `bad_request` if it's invalid. */
export function toPrompt(input: PlaygroundInput): PlaygroundPrompt {
  const { system, temperature, maxTokens, tools, schema } = input;
  return { system, temperature, maxTokens, turns: allTurns(input), tools: parseTools(tools), schema: parseSchema(schema) };
}

/** Returns the turns of the conversation. If the person has entered a new message, it's the last turn. */
export function allTurns({ turns, prompt, images }: PlaygroundInput): readonly PlaygroundTurn[] {
  const hasMessage = prompt.trim() !== '' || images.length > 0;
  return hasMessage ? [...turns, newTurn('user', { text: prompt, images })] : turns;
}

export function newTurn(role: PlaygroundTurn['role'], content: Partial<PlaygroundTurn> = {}): PlaygroundTurn {
  return { role, text: '', images: [], toolCalls: [], toolCallId: '', ...content };
}

/**
 * Accepts whatever people paste, which can be a list in OpenAI's or Anthropic's format, a single tool, or bare
 * functions.
 */
function parseTools(text: string): object[] {
  if (text.trim() === '') return [];
  const value = parseEntered(text, 'the tools');
  const list = Array.isArray(value) ? value : [value];
  return list.map((tool) => {
    if (!isObject(tool)) throw invalid('the tools must be a JSON list of objects');
    const { type, name, description, parameters, input_schema: inputSchema } = tool;
    if (type === 'function' && isObject(tool.function) && asString(tool.function.name)) return tool;
    if (typeof name !== 'string' || name === '') throw invalid('each tool needs a name');
    const schema = parameters ?? inputSchema;
    return {
      type: 'function',
      function: { name, ...(description !== undefined && { description }), ...(schema !== undefined && { parameters: schema }) },
    };
  });
}

/** Accepts a JSON schema, or the `json_schema` of a response format, which contains a schema and its name. */
function parseSchema(text: string): object | null {
  if (text.trim() === '') return null;
  const value = parseEntered(text, 'the schema');
  if (!isObject(value)) throw invalid('the schema must be a JSON object');
  return isObject(value.schema) && typeof value.name === 'string' ? value : { name: 'response', strict: true, schema: value };
}

function parseEntered(text: string, what: string): unknown {
  let value: unknown;
  try {
    value = parseJsonOrThrow(text);
  } catch (cause) {
    throw gatewayError('bad_request', { message: `${what} must be JSON: ${cause instanceof Error ? cause.message : ''}`, cause });
  }
  if (isNestedDeeper(value)) throw invalid(`the nesting of ${what} is too deep`);
  return value;
}

/**
 * Reads the fields without validating them, so that we can show the form again with the same input. Invalid numbers
 * become NaN.
 */
export function readInput(fields: URLSearchParams): PlaygroundInput {
  // Browsers send line breaks as CRLF.
  const text = (name: string) => (fields.get(name) ?? '').replaceAll('\r\n', '\n');
  const number = (name: string) => (text(name).trim() === '' ? null : Number(text(name)));
  return {
    model: text('model'),
    other: text('other'),
    system: text('system'),
    turns: readTurns(fields),
    prompt: text('prompt'),
    images: fields.getAll('image').filter((url) => url.trim() !== ''),
    temperature: number('temperature'),
    maxTokens: number('max_tokens'),
    tools: text('tools'),
    schema: text('schema'),
    recalls: fields.get('memory') === 'recall',
    subject: text('subject').trim(),
  };
}

/**
 * Every turn in the form has each of these fields exactly once, so values with the same index belong to the same turn.
 */
function readTurns(fields: URLSearchParams): PlaygroundTurn[] {
  const all = (name: string) => fields.getAll(`turn_${name}`);
  const [texts, images, calls, ids] = [all('text'), all('images'), all('calls'), all('call_id')];
  return all('role').map((given, index) => {
    const role = given === 'assistant' || given === 'tool' ? given : 'user';
    return {
      role,
      text: (texts[index] ?? '').replaceAll('\r\n', '\n'),
      images: role === 'user' ? asArray(parseJson(images[index] ?? '')).filter((url) => typeof url === 'string') : [],
      toolCalls: role === 'assistant' ? readToolCalls(calls[index] ?? '') : [],
      toolCallId: role === 'tool' ? (ids[index] ?? '') : '',
    };
  });
}

export function readToolCalls(json: string): PlaygroundToolCall[] {
  return asArray(parseJson(json)).map((call) => {
    const { id, name, arguments: given } = asObject(call);
    return { id: asString(id) ?? '', name: asString(name) ?? '', arguments: asString(given) ?? '' };
  });
}

/** Only `data:` URLs have previews, because our Content-Security-Policy blocks all others. */
export function isDataUrl(url: string): boolean {
  return /^data:image\/[\w.+-]+;base64,[\w+/=]+$/.test(url);
}

function isImageUrl(url: string): boolean {
  return isDataUrl(url) || (/^https?:\/\//i.test(url) && URL.canParse(url));
}

function invalid(message: string) {
  return gatewayError('bad_request', { message });
}
