/** Parses the JSON bodies of the media and video routes. This runs in the low-priority thread if a body is large. */
import { gatewayError } from '../core/errors.ts';
import { parseStringMember, scanJson } from '../dialects/json/body-members.ts';
import { type MediaRequestSummary, mediaBodyKeys, parseImageRequest, parseSpeechRequest } from '../dialects/media/image-speech.ts';
import { parseVideoRequest, type VideoRequestSummary, videoBodyKeys } from '../dialects/media/video.ts';

export function parseMediaBody(body: Buffer, { route }: { readonly route: 'images' | 'speech' }): MediaRequestSummary {
  const parse = route === 'images' ? parseImageRequest : parseSpeechRequest;
  return parse(body, scanJson(body, mediaBodyKeys));
}

export function parseVideoBody(body: Buffer, _options: object): VideoRequestSummary {
  return parseVideoRequest(body, scanJson(body, videoBodyKeys));
}

/**
 * Parses the only field that the other video routes need from a body. It's null if it's missing or empty. Throws
 * `forbidden_target` if it isn't a string, and `bad_json` if it's repeated.
 */
export function parseVideoName(body: Buffer, { key }: { readonly key: 'operation' | 'uri' }): { readonly name: string | null } {
  const { members, repeated } = scanJson(body, new Set([key]));
  if (repeated.has(key)) throw gatewayError('bad_json', { message: `${key}: duplicate key` });
  const member = members.get(key);
  if (member === undefined || member.kind === 'null') return { name: null };
  const text = parseStringMember(body, member);
  if (text === null) throw gatewayError('forbidden_target');
  return { name: text === '' ? null : text };
}
