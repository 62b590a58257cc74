/** POST /v1/audio/transcriptions and /v1/audio/translations: a text about the file, whose length is that of 16-bit audio at 16 kHz. */
import { badRequest } from './errors.ts';
import { asObject, asString, type JsonObject } from './json.ts';
import { binaryResponse, type DemoRequest, type DemoResponse, jsonResponse } from './response.ts';

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

export function handleTranscription({ json }: DemoRequest): DemoResponse {
  const transcript = transcribe(json);
  if (transcript === null) return badRequest("Missing required parameter: 'file'.");
  const { text, usage } = transcript;
  return json.response_format === 'text'
    ? binaryResponse('text/plain; charset=utf-8', Buffer.from(`${text}\n`))
    : jsonResponse({ text, usage });
}

/** Returns the transcript of the uploaded file; null without one. */
export function transcribe(json: JsonObject) {
  const { name, size } = asObject(json.file);
  if (typeof size !== 'number' || size === 0) return null;
  const seconds = Math.max(1, Math.ceil(size / bytesPerSecond));
  return { seconds, text: `The demo vendor received ${seconds} s of ${asString(name)}.`, usage: { type: 'duration', seconds } };
}
