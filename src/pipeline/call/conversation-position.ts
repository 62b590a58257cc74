/** Places the conversation of a call between 0 and 1, so that all of its turns make the same choice. */
import { hash } from 'node:crypto';
import type { Call } from '../../core/call.ts';
import { firstUserText, refersToState } from './affinity.ts';

/**
 * Places a conversation by its first user message, and a call without one by its own id. Returns null for a responses
 * request that refers to something that a provider keeps, because another provider doesn't have it. That includes
 * requests without `store: false`, because a later turn may refer to their response.
 */
export function conversationPosition(call: Call): number | null {
  if (call.route === 'responses' && (refersToState(call) || isStored(call))) return null;
  const text = firstUserText(call);
  const digest = hash('sha256', text === null ? call.id : Buffer.concat([Buffer.from(`${call.projectSlug} `), text]), 'buffer');
  return digest.readUInt32LE() / 2 ** 32;
}

function isStored({ body, spans }: Call): boolean {
  const store = spans.members.get('store');
  return store === undefined || body.toString('latin1', store.value.start, store.value.end) !== 'false';
}
