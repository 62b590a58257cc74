/** POST /v1/audio/speech, /v1/text-to-speech/{voice} and /v1/speak?model={voice}: playable audio whose length follows the text. */

import { badRequest, errorResponse } from './errors.ts';
import { asString } from './json.ts';
import { binaryResponse, type IncomingRequest, type OutgoingResponse } from './response.ts';
import { termsOf } from './tokens.ts';

const maxInputCharacters = 4_096;
const maxSpokenTerms = 100;

/** OpenAI's format. Supports the audio formats that need no codec. */
export function handleSpeech({ json }: IncomingRequest): OutgoingResponse {
  const input = asString(json.input);
  const format = json.response_format ?? 'mp3';
  if (input === '' || input.length > maxInputCharacters)
    return badRequest(`Invalid 'input': expected 1 to ${maxInputCharacters} characters.`);
  if (asString(json.voice) === '') return badRequest("Missing required parameter: 'voice'.");
  if (format === 'mp3') return binaryResponse('audio/mpeg', makeMp3(input));
  if (format === 'pcm') return binaryResponse('audio/pcm', makeSamples(input));
  if (format === 'wav') return binaryResponse('audio/wav', makeWav(input));
  return badRequest("Invalid 'response_format': the demo vendor speaks mp3, wav and pcm.");
}

/** ElevenLabs' and Deepgram's format: the voice is in the URL, the text in `text`. */
export function handleVoice({ json }: IncomingRequest): OutgoingResponse {
  const text = asString(json.text);
  if (text === '') return errorResponse('voice', { status: 422, message: 'text: Field required', code: 'missing_text' });
  return binaryResponse('audio/mpeg', makeMp3(text));
}

const mp3FramesPerTerm = 4;
/** MPEG-1 layer III, 32 kbit/s, 44.1 kHz, mono. A frame whose side information is zero holds 26 ms of silence. */
const mp3Frame = Buffer.concat([Buffer.from([0xff, 0xfb, 0x10, 0xc4]), Buffer.alloc(100)]);

function makeMp3(text: string): Buffer {
  return Buffer.alloc(mp3Frame.length * mp3FramesPerTerm * countSpokenTerms(text), mp3Frame);
}

const sampleRate = 24_000;
const samplesPerTerm = 480;

/** Returns 16-bit mono samples of silence. */
function makeSamples(text: string): Buffer {
  return Buffer.alloc(2 * samplesPerTerm * countSpokenTerms(text));
}

function makeWav(text: string): Buffer {
  const samples = makeSamples(text);
  const header = Buffer.alloc(44);
  header.write('RIFF', 0, 'latin1');
  header.writeUInt32LE(36 + samples.length, 4);
  header.write('WAVEfmt ', 8, 'latin1');
  header.writeUInt32LE(16, 16);
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(sampleRate, 24);
  header.writeUInt32LE(sampleRate * 2, 28);
  header.writeUInt16LE(2, 32);
  header.writeUInt16LE(16, 34);
  header.write('data', 36, 'latin1');
  header.writeUInt32LE(samples.length, 40);
  return Buffer.concat([header, samples]);
}

/** Returns the number of terms to render; at least one, so that no file is empty. */
function countSpokenTerms(text: string): number {
  return Math.min(Math.max(termsOf(text).length, 1), maxSpokenTerms);
}
