/**
 * Adds audio formats, and implements the speech format of ElevenLabs and Deepgram (POST /v1/text-to-speech/{voice} and
 * /v1/speak?model={voice}).
 */
import { errorResponse } from '../../../src/demo-vendor/errors.ts';
import { asString } from '../../../src/demo-vendor/json.ts';
import { binaryResponse, type DemoRequest, type DemoResponse } from '../../../src/demo-vendor/response.ts';
import { countSpokenTerms, handleSpeech, makeMp3 } from '../../../src/demo-vendor/speech.ts';
import { voice } from './families.ts';

/** Supports those audio formats that don't need a codec. */
export function handleScriptedSpeech(request: DemoRequest): DemoResponse {
  const { input, response_format: format } = request.json;
  const make = format === 'pcm' ? makeSamples : format === 'wav' ? makeWav : null;
  if (make === null) return handleSpeech(request);
  const outgoing = handleSpeech({ ...request, json: { ...request.json, response_format: 'mp3' } });
  return outgoing.kind === 'body' && outgoing.status === 200 ? binaryResponse(`audio/${format}`, make(asString(input))) : outgoing;
}

/** Handles requests with the voice in the URL and the text in the `text` field. */
export function handleVoice({ json }: DemoRequest): DemoResponse {
  const text = asString(json.text);
  if (text === '') return errorResponse(voice, { status: 422, message: 'text: Field required', code: 'missing_text' });
  return binaryResponse('audio/mpeg', makeMp3(text));
}

const sampleRate = 24_000;
const samplesPerTerm = 480;

/** Returns silence as 16-bit mono samples. */
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
