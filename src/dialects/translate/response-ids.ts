const prefixes = { chat: 'chatcmpl-', messages: 'msg_' } as const;
const anyPrefix = /^(?:chatcmpl-|msg_)/;

/**
 * Clients and logs recognize a response by the prefix of its id, so the vendor's prefix is replaced by the one of the
 * caller's dialect.
 */
export function toResponseId(target: 'chat' | 'messages', id: string): string {
  return prefixes[target] + id.replace(anyPrefix, '');
}
