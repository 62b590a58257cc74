/** Reads pages of the console like a person: their text without tags, and the values of their hidden fields. */
import { expect } from '@jest/globals';

/** Returns the page without tags, except fields, and with decoded entities. Expects the status. */
export async function textOf(response: Promise<Response>, status = 200): Promise<string> {
  const received = await response;
  const text = await received.text();
  expect(received.status).toBe(status);
  return decodeEntities(text.replace(/<(?!input|textarea)[^>]*>/g, ' ')).replace(/\s+/g, ' ');
}

export function decodeEntities(text: string): string {
  return text.replaceAll('&quot;', '"').replaceAll('&#39;', "'").replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
}

/** Returns the value of the first hidden field with this name. */
export function hiddenValue(page: string, name: string): string {
  return decodeEntities(new RegExp(`name="${name}" value="([^"]*)"`).exec(page)?.[1] ?? '');
}
