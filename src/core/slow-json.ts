import { largeBytes } from './low-priority-thread.ts';

/** A body with fewer bytes has too few values to take long. */
const minBytes = 64 * 1_024;

/**
 * Every value has a colon or comma next to it, so we count these. Text contains them too. A conversation of a megabyte
 * has about this many, so we still process most conversations on the event loop.
 */
const maxSeparators = 15_000;

const comma = 0x2c;
const colon = 0x3a;

/**
 * Returns true if the event loop would need too long to parse the JSON into values, so that we leave it to a thread. A
 * body of 1 MiB can take hundreds of milliseconds if it has many short fields, but only a few if it's mostly text.
 */
export function isSlowToParse(body: Buffer): boolean {
  if (body.length < minBytes || body.length >= largeBytes) return body.length >= largeBytes;
  let separators = 0;
  for (let at = 0; at < body.length; at += 1) if (body[at] === comma || body[at] === colon) separators += 1;
  return separators > maxSeparators;
}
