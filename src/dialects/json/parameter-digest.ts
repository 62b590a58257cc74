/** Digests the part of a body that the vendor's response depends on, so that we can compare requests. */
import { createHash } from 'node:crypto';
import { omitMembers } from '../../core/json/omit.ts';
import type { BodySpans } from '../../core/json/spans.ts';
import { factsOf } from './body-facts.ts';

/**
 * We leave out the model because the call's candidates already identify it, and the other members because they only
 * select the format of the response.
 */
const excludedMembers = ['model', 'stream', 'stream_options'];

/** Returns the bytes of the body without the members that don't change the content of the response. */
export function parameterBytes(body: Buffer, spans: BodySpans): Buffer[] {
  return omitMembers(body, spans, excludedMembers);
}

export function digestParameters(body: Buffer, spans: BodySpans): string {
  const known = factsOf(body)?.digest;
  if (known) return known;
  const digest = createHash('sha256');
  for (const part of parameterBytes(body, spans)) digest.update(part);
  return digest.digest('base64');
}
