/** A gateway with vendors for every media format, and functions that call its image and speech routes. */
import type { CallRow, TestGateway } from '../support/gateway.ts';
import { callsOf, jsonOf } from '../support/gateway.ts';

export interface MediaRoute {
  readonly name: 'images' | 'speech';
  readonly path: string;
  /** The word for it in error messages. */
  readonly word: 'image' | 'tts';
  /** The members of a valid body besides its model. */
  readonly body: Readonly<Record<string, unknown>>;
}

export const images: MediaRoute = { name: 'images', path: '/v1/images/generations', word: 'image', body: { prompt: 'a fox', size: '8x8' } };
export const speech: MediaRoute = { name: 'speech', path: '/v1/audio/speech', word: 'tts', body: { input: 'Hello, fox.' } };
export const mediaRoutes: readonly MediaRoute[] = [images, speech];

/**
 * `one` and `two` use the standard formats, and `strict` does so without `response_format`. `art` uses artifacts,
 * `path` and `query` have voices, `hasty` has a short timeout, nothing listens on `dead`, and `text` serves no media.
 * Every other model has no price.
 */
export function mediaYaml(vendorUrl: string, deadUrl: string): string {
  const at = (name: string, rest = '', url = `${vendorUrl}/v1`) =>
    `  ${name}: { base_url: ${url}, api_key: key-of-${name}, dialect: chat${rest === '' ? '' : `, ${rest}`} }\n`;
  return `
providers:
${at('one', 'headers: { x-second-key: second-key-of-one }')}${at('two')}${at('hasty', 'first_byte_timeout_ms: 1500')}${at('strict', 'image_response_format: false')}${at(
  'art',
  'serves: [images], image_shape: artifacts',
  `${vendorUrl}/v1/genai/acme`,
)}${at('path', 'serves: [speech], speech_shape: voice, auth: { header: xi-api-key }, speech: { body: { model_id: v2 } }')}${at(
  'query',
  'serves: [speech], speech_shape: voice, auth: { header: authorization, scheme: Token }, speech: { voice_in: query, path: /speak?encoding=mp3 }, speech_media_type: audio/x-own',
)}${at('dead', '', `${deadUrl}/v1`)}${at('text', 'serves: [chat]')}
models:
  one/picture: { per_image: 0.04 }
  one/tokens: { kind: images, input: 5, output: 40 }
  one/no-usage: { kind: images, input: 5, output: 40 }
  one/spoken: { per_million_characters: 15 }
  one/seconds: { kind: speech, per_second: 0.001, takes: [speed] }
  one/tts-tokens: { kind: speech, input: 0.60, output: 12 }
  two/picture: { per_image: 0.02 }
image_tiers: { standard: [one/picture, two/picture], artful: [art/flux] }
speech_tiers: { standard: [one/spoken, two/spoken], voices: [path/rachel] }
tiers: { standard: [one/echo], prose: [one/echo] }
`;
}

/** Calls a route with a model. */
export function askMedia(
  gateway: TestGateway,
  route: MediaRoute,
  model: unknown,
  { more = {}, headers = {} }: { more?: Readonly<Record<string, unknown>>; headers?: Record<string, string> } = {},
): Promise<Response> {
  return gateway.call(route.path, { ...route.body, model, ...more }, headers);
}

/** Returns the latest request to the vendor. */
export function sentToVendor({ vendor }: TestGateway): { path: string; headers: Record<string, unknown>; text: string } {
  const last = vendor.requests().at(-1);
  return { path: last?.path ?? '', headers: last?.headers ?? {}, text: last?.body.toString() ?? '' };
}

export const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

export async function issueKey({ admin, project }: TestGateway, settings: object): Promise<{ key: string; prefix: string }> {
  return jsonOf(admin('POST', `/provision/teams/${project}/keys`, { name: 'own', ...settings }));
}

/** Returns the call row of a response. */
export async function rowOf(gateway: TestGateway): Promise<CallRow & Record<string, unknown>> {
  const [row] = (await callsOf(gateway)) as readonly (CallRow & Record<string, unknown>)[];
  if (!row) throw new Error('no call is recorded');
  return row;
}
