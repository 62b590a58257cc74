/** POST /v1/audio/transcriptions and /v1/audio/translations: a text about the file, whose length is that of 16-bit audio at 16 kHz. */
import { badRequest, errorBody } from './errors.ts';
import { asObject, asString, type JsonObject } from './json.ts';
import { binaryResponse, type EventStream, type IncomingRequest, jsonResponse, type OutgoingResponse } from './response.ts';
import { splitText } from './tokens.ts';

const bytesPerSecond = 32_000;

/** Reads a multipart body: texts as strings, a file as its name and size. Null when it cannot be parsed. */
export async function parseForm(contentType: string, body: Buffer): Promise<JsonObject | null> {
  try {
    const form = await new Response(new Uint8Array(body), { headers: { 'content-type': contentType } }).formData();
    const parts = [...form].map(([name, value]) => [name, typeof value === 'string' ? value : { name: value.name, size: value.size }]);
    return Object.fromEntries(parts);
  } catch {
    // Not an error here: the server responds with 400.
    return null;
  }
}

export function handleTranscription({ json, path, script }: IncomingRequest): OutgoingResponse {
  const { name, size } = asObject(json.file);
  if (typeof size !== 'number' || size === 0) return badRequest("Missing required parameter: 'file'.");
  const seconds = Math.max(1, Math.ceil(size / bytesPerSecond));
  const text = `The demo vendor received ${seconds} s of ${asString(name)}.`;
  const usage = script.usage === 'none' ? {} : { usage: { type: 'duration', seconds } };
  if (json.stream === 'true') return { kind: 'stream', stream: transcriptStream(text, usage) };
  switch (json.response_format ?? 'json') {
    case 'json':
      return jsonResponse({ text, ...usage });
    case 'verbose_json': {
      const task = path.endsWith('translations') ? 'translate' : 'transcribe';
      return jsonResponse({ task, language: 'english', duration: seconds, text, segments: [], ...usage });
    }
    case 'text':
      return textResponse(`${text}\n`);
    case 'srt':
      return textResponse(`1\n00:00:00,000 --> ${toTime(seconds)},000\n${text}\n`);
    case 'vtt':
      return textResponse(`WEBVTT\n\n00:00:00.000 --> ${toTime(seconds)}.000\n${text}\n`);
    default:
      return badRequest("Invalid 'response_format': expected json, verbose_json, text, srt or vtt.");
  }
}

function textResponse(text: string): OutgoingResponse {
  return binaryResponse('text/plain; charset=utf-8', Buffer.from(text));
}

function toTime(seconds: number): string {
  const parts = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60, seconds % 60];
  return parts.map((part) => String(part).padStart(2, '0')).join(':');
}

function transcriptStream(text: string, usage: object): EventStream {
  const event = (json: object): string => `data: ${JSON.stringify(json)}\n\n`;
  return {
    opening: [],
    deltas: [...splitText(text)].map((delta) => event({ type: 'transcript.text.delta', delta })),
    closing: [event({ type: 'transcript.text.done', text, ...usage })],
    error: () => event(errorBody('openai', { status: 500, message: 'The server had an error while answering.' })),
  };
}
