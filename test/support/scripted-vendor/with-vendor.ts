/** Starts a demo vendor on a free port for a single test, and sends requests to it without a client library. */
import { createScriptedVendor, type ScriptedVendor, type ScriptedVendorOptions } from './server.ts';

export async function withVendor<Result>(
  work: (vendor: ScriptedVendor) => Promise<Result>,
  options: ScriptedVendorOptions = {},
): Promise<Result> {
  const vendor = await createScriptedVendor({ port: 0, ...options });
  try {
    return await work(vendor);
  } finally {
    await vendor.close();
  }
}

/** The key headers of all vendor families, and the version header, which is required in the messages dialect. */
export const keyHeaders = {
  authorization: 'Bearer any',
  'x-api-key': 'any',
  'x-goog-api-key': 'any',
  'anthropic-version': '2023-06-01',
  'content-type': 'application/json',
};

export function post(vendor: ScriptedVendor, path: string, body: unknown, headers: Record<string, string> = keyHeaders): Promise<Response> {
  return fetch(`${vendor.url}${path}`, {
    method: 'POST',
    headers,
    body: typeof body === 'string' ? body : JSON.stringify(body),
    redirect: 'manual',
    signal: AbortSignal.timeout(60_000),
  });
}

/** Sends a chat call to a model. */
export function chat(vendor: ScriptedVendor, model: string, members: object = {}): Promise<Response> {
  return post(vendor, '/v1/chat/completions', { model, messages: [{ role: 'user', content: 'hello there, dear world' }], ...members });
}

/** Sends a messages call to a model. */
export function message(vendor: ScriptedVendor, model: string, members: object = {}): Promise<Response> {
  const messages = [{ role: 'user', content: 'hello there, dear world' }];
  return post(vendor, '/v1/messages', { model, max_tokens: 1_000, messages, ...members });
}

/** Reads a body until it ends or is cut off. */
export async function readUntilBreak(response: Response): Promise<{ text: string; chunks: number; broken: boolean }> {
  const decoder = new TextDecoder();
  let text = '';
  let chunks = 0;
  try {
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk, { stream: true });
      chunks += 1;
    }
    return { text, chunks, broken: false };
  } catch {
    // fetch throws if the response was cut off.
    return { text, chunks, broken: true };
  }
}

export function count(text: string, part: string): number {
  return text.split(part).length - 1;
}
