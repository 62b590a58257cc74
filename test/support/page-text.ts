/** Reads console pages like a person would, i.e. their text without tags, and the values of hidden fields. */
import { expect } from '@jest/globals';

/**
 * Returns the text of a page with decoded entities. All tags except form fields are removed. Fails if the response has
 * a different status.
 */
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
