/** Returns transcripts as streams, subtitles and verbose JSON. */
import { badRequest } from '../../../src/demo-vendor/errors.ts';
import { binaryResponse, type DemoRequest, type DemoResponse, type EventStream, jsonResponse } from '../../../src/demo-vendor/response.ts';
import { splitText } from '../../../src/demo-vendor/tokens.ts';
import { handleTranscription, transcribe } from '../../../src/demo-vendor/transcriptions.ts';

export function handleScriptedTranscription(request: DemoRequest): DemoResponse {
  const { json, path } = request;
  const transcript = transcribe(json);
  if (transcript === null) return handleTranscription(request);
  const { seconds, text, usage } = transcript;
  if (json.stream === 'true') return { kind: 'stream', stream: transcriptStream(text, usage) };
  switch (json.response_format ?? 'json') {
    case 'json':
    case 'text':
      return handleTranscription(request);
    case 'verbose_json': {
      const task = path.endsWith('translations') ? 'translate' : 'transcribe';
      return jsonResponse({ task, language: 'english', duration: seconds, text, segments: [], usage });
    }
    case 'srt':
      return textResponse(`1\n00:00:00,000 --> ${toTime(seconds)},000\n${text}\n`);
    case 'vtt':
      return textResponse(`WEBVTT\n\n00:00:00.000 --> ${toTime(seconds)}.000\n${text}\n`);
    default:
      return badRequest("Invalid 'response_format': expected json, verbose_json, text, srt or vtt.");
  }
}

function textResponse(text: string): DemoResponse {
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
    closing: [event({ type: 'transcript.text.done', text, usage })],
  };
}
