/**
 * Reads the request bodies of the image and speech routes, and builds the vendor's bodies from them. We copy the
 * caller's JSON text instead of parsing the values, because parsing would round long numbers, such as a seed of twenty
 * digits. See docs/api/reference.md#images.
 */
import { gatewayError } from '../../core/errors.ts';
import { asString } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import { scanTokens } from '../../core/json/scan-tokens.ts';
import { type BodySpans, decodeString } from '../../core/json/spans.ts';
import { type SupportedParam, supportedParams } from '../../core/supported-params.ts';
import { parseLenientCount, parseStringMember, rejectDuplicateKeys } from '../json/body-members.ts';

const imageFields = ['prompt', 'n', 'size', 'cfg_scale', ...supportedParams.images] as const;
const speechFields = ['input', 'voice', 'response_format', ...supportedParams.speech] as const;

/** The JSON text of each field. Null fields are left out, as if they were missing. */
export type MediaFields = Readonly<Partial<Record<(typeof imageFields)[number] | (typeof speechFields)[number], string>>>;

export const mediaBodyKeys: ReadonlySet<string> = new Set(['model', ...imageFields, ...speechFields]);

export interface MediaRequestSummary {
  readonly model: string;
  readonly fields: MediaFields;
  /** The texts of all fields, for content rules. */
  readonly texts: readonly string[];
  /** The length of the text to speak, see `countCharacters`. */
  readonly characters: number;
}

/** Throws `missing_model`, `bad_model`, or `bad_json` for repeated keys. */
export function parseImageRequest(body: Buffer, spans: BodySpans): MediaRequestSummary {
  const facts = parseFields(body, spans, imageFields);
  assertImageModel(facts.model);
  return facts;
}

/** Throws `bad_model` if this can't be the name of an image model. */
export function assertImageModel(model: string): void {
  if (!/^[A-Za-z0-9._:/-]*$/.test(model))
    throw gatewayError('bad_model', { message: 'model may only contain letters, digits, ".", "_", "-" and ":"' });
  if (!hasModelForm(model)) throw gatewayError('bad_model', { message: 'model must be <provider>/<model>, or a name without a slash' });
}

/**
 * We always return images as base64. If the caller asked for another format, this returns the text of the
 * `x-gateway-warning` header, otherwise null.
 */
export function warnOfImageFormat(format: string | null): string | null {
  return format === null || format === 'b64_json' ? null : 'response_format was ignored: images are returned as b64_json';
}

/**
 * Throws `missing_model` if there's no model, and `bad_json` if a key is repeated. We don't check the format of the
 * model here, because callers can also send the name of a voice, which may look like anything. The planner checks
 * whether a vendor has it.
 */
export function parseSpeechRequest(body: Buffer, spans: BodySpans): MediaRequestSummary {
  return parseFields(body, spans, speechFields);
}

function parseFields(body: Buffer, spans: BodySpans, names: readonly (keyof MediaFields)[]): MediaRequestSummary {
  rejectDuplicateKeys(spans, ['model', ...names]);
  const model = parseStringMember(body, spans.members.get('model'));
  if (model === null || model === '') throw gatewayError('missing_model');
  const fields = names.flatMap((name) => {
    const member = spans.members.get(name);
    return member && member.kind !== 'null' ? [[name, body.toString('utf8', member.value.start, member.value.end)]] : [];
  });
  const found: MediaFields = Object.fromEntries(fields);
  return { model, fields: found, texts: getFieldTexts(found), characters: countCharacters(found) };
}

/**
 * Returns true if the model is a plain name or `<provider>/<model>`. By default, the name itself can't contain a slash.
 * If a vendor's image models start with a publisher, the publisher has to be part of the provider's base URL.
 */
export function hasModelForm(model: string, { maxSegments = 2 }: { readonly maxSegments?: number } = {}): boolean {
  const segments = model.split('/');
  return segments.length <= maxSegments && !segments.some((segment) => segment === '' || segment === '.' || segment === '..');
}

export function pickFields(fields: MediaFields, takes: readonly SupportedParam[] | null): MediaFields {
  return Object.fromEntries((takes ?? []).flatMap((name) => (fields[name] === undefined ? [] : [[name, fields[name]]])));
}

/** Writes a JSON object and leaves out all fields that are undefined. */
export function formatFields(members: Readonly<Record<string, string | undefined>>): Buffer {
  const written = Object.entries(members).flatMap(([name, json]) => (json === undefined ? [] : [`${JSON.stringify(name)}:${json}`]));
  return Buffer.from(`{${written.join(',')}}`);
}

/**
 * Returns how many images the caller asked for. For an invalid `n` this is 1, which doesn't matter because the vendor
 * rejects the request.
 */
export function getImageCount({ n = '1' }: MediaFields): number {
  if (n.length > maxSimpleLength) return 1;
  // Form fields are text, and a vendor may read `010` as ten even though it isn't valid JSON.
  return parseLenientCount(String(parseJson(n) ?? n)) ?? 1;
}

/** OpenAI's slowest speed is 0.25. */
const maxSlowdown = 4;

/**
 * Returns how much longer than usual the speech gets at the requested speed, e.g. 2 for twice as long. Never below 1.
 */
export function getSlowdown({ speed = '1' }: MediaFields): number {
  const value = speed.length > maxSimpleLength ? null : parseJson(speed);
  return typeof value === 'number' && value > 0 && value < 1 ? Math.min(1 / value, maxSlowdown) : 1;
}

/** Vendors charge for speech by Unicode code points. */
export function countCharacters({ input = '""' }: MediaFields): number {
  const text: unknown = parseJson(input);
  if (typeof text !== 'string') return 0;
  let pairs = 0;
  for (let position = 0; position < text.length; position += 1) if ((text.codePointAt(position) ?? 0) > 0xffff) pairs += 1;
  return text.length - pairs;
}

function getFieldTexts(fields: MediaFields): string[] {
  return joinExcess(Object.values(fields).flatMap((json) => toRuleText(json)));
}

const maxTexts = 1_000;

/**
 * Joins the last texts if there are too many. Real requests have a few fields of text, but a list of 32 MiB can have
 * millions of entries, and copying that many texts from thread to thread would block the event loop.
 */
export function joinExcess(texts: readonly string[]): string[] {
  return texts.length <= maxTexts ? [...texts] : [...texts.slice(0, maxTexts), texts.slice(maxTexts).join('\n')];
}

/**
 * Returns the text of a field for content rules. It consists of all strings (including keys, and all values of repeated
 * keys) and long numbers. They come from the JSON text rather than the parsed value, because that's what the vendor
 * receives.
 */
export function toRuleText(json: string): string[] {
  const bytes = Buffer.from(json);
  const texts: string[] = [];
  const { longNumbers } = scanTokens(bytes, (string) => texts.push(decodeString(bytes, string)));
  return [...texts, ...longNumbers];
}

/** A number or a name isn't longer than this as JSON text, even if all its characters are escaped. */
const maxSimpleLength = 400;

/** Parses a short string, such as the name of a format. Returns null for anything else, which can be megabytes long. */
export function parseSimpleText(json: string | undefined): string | null {
  return json === undefined || json.length > maxSimpleLength ? null : asString(parseJson(json));
}

/**
 * Returns the width and height of a size as JSON text, or null for `auto`, which lets the vendor choose. Throws
 * `bad_json` if the size is invalid.
 */
export function parseSize(size = '"1024x1024"'): { readonly width: string; readonly height: string } | null {
  const match = /^(?:auto|([1-9]\d{0,4})x([1-9]\d{0,4}))$/.exec(parseSimpleText(size) ?? '');
  if (!match) throw gatewayError('bad_json', { message: 'size: must be <width>x<height>' });
  const [, width, height] = match;
  return width === undefined || height === undefined ? null : { width, height };
}
