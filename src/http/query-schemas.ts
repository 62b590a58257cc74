/**
 * Schemas of query parameters. A value is a string, or a list if the parameter was sent more than once, which we never
 * accept. Invalid values get a 400. Routes that SDKs call ignore other parameters, because SDKs send their own. The
 * routes of `/provision` use strict schemas, because without a filter that was misspelled they would show, export or
 * change too much.
 */
import { z } from 'zod';

/** Only accepts digits. `Number` would also accept `1e2`, `0x10` and spaces. */
export function wholeNumber(minimum: number, maximum: number) {
  const error = `must be a whole number from ${minimum} to ${maximum}`;
  return z
    .string({ error })
    .regex(/^\d+$/, error)
    .transform(Number)
    .refine((value) => value >= minimum && value <= maximum, error);
}

export const pageLimit = wholeNumber(1, 1_000);

export const flag = z
  .enum(['true', 'false'])
  .default('false')
  .transform((value) => value === 'true');
