/** POST /v1/audio/speech, /v1/text-to-speech/{voice} and /v1/speak?model={voice}: a hum as long as the text, in files that players open. */

import { errorAnswer } from './errors.ts';
import { textOf } from './json.ts';
import { type Answer, bytesAnswer, type Question } from './response.ts';
import { hashOf, wordsOf } from './tokens.ts';

const MAX_INPUT_CHARACTERS = 4_096;
const MAX_SPOKEN_WORDS = 100;

/** OpenAI's shape. Of its formats the demo vendor can make those that need no codec. */
export function answerSpeech({ json }: Question): Answer {
  const input = textOf(json.input);
  const format = json.response_format ?? 'mp3';
  if (input === '' || input.length > MAX_INPUT_CHARACTERS)
    return refuse(`Invalid 'input': expected 1 to ${MAX_INPUT_CHARACTERS} characters.`);
  if (textOf(json.voice) === '') return refuse("Missing required parameter: 'voice'.");
  if (format === 'mp3') return bytesAnswer('audio/mpeg', makeMp3(input));
  if (format === 'pcm') return bytesAnswer('audio/pcm', makeSamples(input));
  if (format === 'wav') return bytesAnswer('audio/wav', makeWav(input));
  return refuse("Invalid 'response_format': the demo vendor speaks mp3, wav and pcm.");
}

/** ElevenLabs' and Deepgram's shape: the voice is in the address, the text in `text`. */
export function answerVoice({ json }: Question): Answer {
  const text = textOf(json.text);
  if (text === '') return errorAnswer('voice', { status: 422, message: 'text: Field required', code: 'missing_text' });
  return bytesAnswer('audio/mpeg', makeMp3(text));
}

const MP3_FRAMES_PER_WORD = 4;
/** MPEG-1 layer III, 32 kbit/s, 44.1 kHz, mono. A frame whose side information is zero holds 26 ms of silence. */
const MP3_FRAME = Buffer.concat([Buffer.from([0xff, 0xfb, 0x10, 0xc4]), Buffer.alloc(100)]);

function makeMp3(text: string): Buffer {
  return Buffer.concat(Array.from({ length: MP3_FRAMES_PER_WORD * spokenWords(text).length }, () => MP3_FRAME));
}

const SAMPLE_RATE = 24_000;
const SAMPLES_PER_WORD = 480;

/** 16-bit mono: each word a short tone of its own pitch. */
function makeSamples(text: string): Buffer {
  const words = spokenWords(text);
  const samples = Buffer.allocUnsafe(words.length * SAMPLES_PER_WORD * 2);
  words.forEach((word, wordIndex) => {
    const step = (2 * Math.PI * (200 + (hashOf(word) % 400))) / SAMPLE_RATE;
    for (let index = 0; index < SAMPLES_PER_WORD; index += 1) {
      samples.writeInt16LE(Math.round(8_000 * Math.sin(step * index)), (wordIndex * SAMPLES_PER_WORD + index) * 2);
    }
  });
  return samples;
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
  header.writeUInt32LE(SAMPLE_RATE, 24);
  header.writeUInt32LE(SAMPLE_RATE * 2, 28);
  header.writeUInt16LE(2, 32);
  header.writeUInt16LE(16, 34);
  header.write('data', 36, 'latin1');
  header.writeUInt32LE(samples.length, 40);
  return Buffer.concat([header, samples]);
}

/** At least one, so that no file is empty. */
function spokenWords(text: string): readonly string[] {
  const words = wordsOf(text).slice(0, MAX_SPOKEN_WORDS);
  return words.length === 0 ? ['hm'] : words;
}

function refuse(message: string): Answer {
  return errorAnswer('openai', { status: 400, message });
}
