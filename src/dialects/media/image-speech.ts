/**
 * Reads the request bodies of the image and speech routes, and builds the vendor's bodies from them. We copy values as
 * the caller's JSON text, so that a seed of twenty digits keeps all of them. See docs/api/reference.md#images.
 */
import { gatewayError } from '../../core/errors.ts';
import { asString, parseJson } from '../../core/json/narrow.ts';
import { type BodySpans, decodeString } from '../../core/json/spans.ts';
import { type SupportedParam, supportedParams } from '../../core/supported-params.ts';
import { parseLenientCount, parseStringMember, rejectDuplicateKeys } from '../json/body-members.ts';
import { scanTokens } from '../json/scan-tokens.ts';

const imageFields = ['prompt', 'n', 'size', 'cfg_scale', ...supportedParams.images] as const;
const speechFields = ['input', 'voice', 'response_format', ...supportedParams.speech] as const;

/** The JSON text of each field. Fields that are absent or null are left out. */
export type MediaFields = Readonly<Partial<Record<(typeof imageFields)[number] | (typeof speechFields)[number], string>>>;

/** All members that we read from the body on the image and speech routes. */
export const mediaBodyKeys: ReadonlySet<string> = new Set(['model', ...imageFields, ...speechFields]);

export interface MediaRequestSummary {
  readonly model: string;
  readonly fields: MediaFields;
}

/** Throws `missing_model` or `bad_model`, or `bad_json` if a key is repeated. */
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

/** Returns the text of `x-gateway-warning` if the caller asks for an image format other than base64, or else null. */
export function warnOfImageFormat(format: unknown): string | null {
  return format === null || format === 'b64_json' ? null : 'response_format was ignored: images are returned as b64_json';
}

/**
 * Voices can have any name, so the planner checks whether a vendor has the requested one. Throws `missing_model`, or
 * `bad_json` if a key is repeated.
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
  return { model, fields: Object.fromEntries(fields) };
}

/**
 * Reports whether `model` is `<provider>/<model>` or a name without a slash. It can't include the model's publisher,
 * which belongs in the provider's base URL.
 */
export function hasModelForm(model: string): boolean {
  const parts = model.split('/');
  return parts.length <= 2 && !parts.some((part) => part === '' || part === '.' || part === '..');
}

/** Returns the optional fields that the caller sent and the model accepts. */
export function pickFields(fields: MediaFields, takes: readonly SupportedParam[] | null): MediaFields {
  return Object.fromEntries((takes ?? []).flatMap((name) => (fields[name] === undefined ? [] : [[name, fields[name]]])));
}

/** Formats a JSON object with the fields that are present. */
export function formatFields(members: Readonly<Record<string, string | undefined>>): Buffer {
  const written = Object.entries(members).flatMap(([name, json]) => (json === undefined ? [] : [`${JSON.stringify(name)}:${json}`]));
  return Buffer.from(`{${written.join(',')}}`);
}

/** Returns the number of requested images, or 1 if `n` is invalid, because the vendor will reject it. */
export function getImageCount({ n = '1' }: MediaFields): number {
  // Form fields are text, and a vendor may read `010` as ten although it isn't valid JSON.
  return parseLenientCount(String(parseJson(n) ?? n)) ?? 1;
}

/** Counts the Unicode code points of the input text, because this is what vendors charge for. */
export function countCharacters({ input = '""' }: MediaFields): number {
  const text: unknown = parseJson(input);
  if (typeof text !== 'string') return 0;
  let pairs = 0;
  for (let position = 0; position < text.length; position += 1) if ((text.codePointAt(position) ?? 0) > 0xffff) pairs += 1;
  return text.length - pairs;
}

/** Returns the texts of all fields for the content rules. */
export function getFieldTexts(fields: MediaFields): string[] {
  return Object.values(fields).flatMap((json) => toRuleText(json));
}

/**
 * Returns the strings of a field that content rules check: all of its strings, including keys and the values of
 * repeated keys, and its long numbers. We read the JSON text rather than the parsed value, because the vendor
 * receives the text.
 */
export function toRuleText(json: string): string[] {
  const bytes = Buffer.from(json);
  const texts: string[] = [];
  const { longNumbers } = scanTokens(bytes, (string) => texts.push(decodeString(bytes, string)));
  return [...texts, ...longNumbers];
}

/**
 * Parses the width and height, keeping them as JSON. Returns null for `auto`, which lets the vendor choose. Throws
 * `bad_json` for anything else.
 */
export function parseSize(size = '"1024x1024"'): { readonly width: string; readonly height: string } | null {
  const match = /^(?:auto|([1-9]\d{0,4})x([1-9]\d{0,4}))$/.exec(asString(parseJson(size)) ?? '');
  if (!match) throw gatewayError('bad_json', { message: 'size: must be <width>x<height>' });
  const [, width, height] = match;
  return width === undefined || height === undefined ? null : { width, height };
}
