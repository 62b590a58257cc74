/** Parses and validates the playground's form. */
import { gatewayError } from '../../core/errors.ts';

export interface PlaygroundInput {
  /** The name of a tier or model. */
  readonly model: string;
  /** The second tier or model for a comparison, or an empty string. */
  readonly other: string;
  readonly system: string;
  readonly prompt: string;
  readonly temperature: number | null;
  readonly maxTokens: number | null;
}

const maxModelLength = 300;

/** Throws `bad_request`. */
export function parseInput(fields: URLSearchParams): PlaygroundInput {
  const input = readInput(fields);
  if (input.model === '') throw invalid('choose a model');
  if (input.model.length > maxModelLength || input.other.length > maxModelLength) throw invalid('the name of the model is too long');
  if (input.prompt.trim() === '') throw invalid('the message must not be empty');
  const { temperature, maxTokens } = input;
  if (temperature !== null && !(temperature >= 0 && temperature <= 2)) throw invalid('temperature must be a number from 0 to 2');
  if (maxTokens !== null && !(Number.isSafeInteger(maxTokens) && maxTokens > 0))
    throw invalid('max tokens must be a positive whole number');
  return input;
}

/**
 * Returns the fields without validating them, so that we can fill the form again. A number that can't be parsed becomes
 * NaN.
 */
export function readInput(fields: URLSearchParams): PlaygroundInput {
  const text = (name: string) => fields.get(name) ?? '';
  const number = (name: string) => (text(name).trim() === '' ? null : Number(text(name)));
  return {
    model: text('model'),
    other: text('other'),
    // Browsers send line breaks as CRLF.
    system: text('system').replaceAll('\r\n', '\n'),
    prompt: text('prompt').replaceAll('\r\n', '\n'),
    temperature: number('temperature'),
    maxTokens: number('max_tokens'),
  };
}

function invalid(message: string) {
  return gatewayError('bad_request', { message });
}
