/**
 * Handles POST /v1/audio/transcriptions and /v1/audio/translations. The demo vendor doesn't understand speech, so its
 * transcript just names the file. It estimates the duration from the size of the file, as if it were 16-bit mono audio
 * at 16 kHz.
 */
import { badRequest } from './errors.ts';
import { asObject, asString, type JsonObject } from './json.ts';
import { binaryResponse, type DemoRequest, type DemoResponse, jsonResponse } from './response.ts';

const bytesPerSecond = 32_000;

/**
 * Parses a multipart body. Text fields become strings, and files become objects with a name and a size. Returns null if
 * the body is invalid.
 */
export async function parseForm(contentType: string, body: Buffer): Promise<JsonObject | null> {
  try {
    const form = await new Response(new Uint8Array(body), { headers: { 'content-type': contentType } }).formData();
    const parts = [...form].map(([name, value]) => [name, typeof value === 'string' ? value : { name: value.name, size: value.size }]);
    return Object.fromEntries(parts);
  } catch {
    // The caller turns this into a 400.
    return null;
  }
}

export function handleTranscription({ json }: DemoRequest): DemoResponse {
  const transcript = transcribe(json);
  if (transcript === null) return badRequest("Missing required parameter: 'file'.");
  const { text, usage } = transcript;
  return json.response_format === 'text'
    ? binaryResponse('text/plain; charset=utf-8', Buffer.from(`${text}\n`))
    : jsonResponse({ text, usage });
}

/** Returns the transcript of the file, or null if there's no file. */
export function transcribe(json: JsonObject) {
  const { name, size } = asObject(json.file);
  if (typeof size !== 'number' || size === 0) return null;
  const seconds = Math.max(1, Math.ceil(size / bytesPerSecond));
  return { seconds, text: `The demo vendor received ${seconds} s of ${asString(name)}.`, usage: { type: 'duration', seconds } };
}
