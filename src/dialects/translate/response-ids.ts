/** Creates ids for translated responses in the format of the caller's dialect. */

const prefixes = { chat: 'chatcmpl-', messages: 'msg_' } as const;
const anyPrefix = /^(?:chatcmpl-|msg_)/;

/**
 * Replaces the prefix of the vendor's id with that of the caller's dialect, because clients and their logs recognize a
 * response by its prefix.
 */
export function toResponseId(target: 'chat' | 'messages', id: string): string {
  return prefixes[target] + id.replace(anyPrefix, '');
}
