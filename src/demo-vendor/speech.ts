/** Handles POST /v1/audio/speech. The result is silent MP3 audio, which is longer for a longer text. */
import { badRequest } from './errors.ts';
import { asString } from './json.ts';
import { binaryResponse, type DemoRequest, type DemoResponse } from './response.ts';
import { termsOf } from './tokens.ts';

const maxInputCharacters = 4_096;
const maxSpokenTerms = 100;

export function handleSpeech({ json }: DemoRequest): DemoResponse {
  const input = asString(json.input);
  if (input === '' || input.length > maxInputCharacters)
    return badRequest(`Invalid 'input': expected 1 to ${maxInputCharacters} characters.`);
  if (asString(json.voice) === '') return badRequest("Missing required parameter: 'voice'.");
  if ((json.response_format ?? 'mp3') !== 'mp3') return badRequest("Invalid 'response_format': the demo vendor only supports mp3.");
  return binaryResponse('audio/mpeg', makeMp3(input));
}

const mp3FramesPerTerm = 4;
/**
 * A frame in MPEG-1 layer III, at 32 kbit/s and 44.1 kHz in mono. Since its side information is all zeros, it's 26 ms
 * of silence.
 */
const mp3Frame = Buffer.concat([Buffer.from([0xff, 0xfb, 0x10, 0xc4]), Buffer.alloc(100)]);

export function makeMp3(text: string): Buffer {
  return Buffer.alloc(mp3Frame.length * mp3FramesPerTerm * countSpokenTerms(text), mp3Frame);
}

/** Returns how many words to speak. It's at least one, because the file would be empty otherwise. */
export function countSpokenTerms(text: string): number {
  return Math.min(Math.max(termsOf(text).length, 1), maxSpokenTerms);
}
