/** Ids of translated responses, in the form of the caller's dialect. */

const prefixes = { chat: 'chatcmpl-', messages: 'msg_' } as const;
const anyPrefix = /^(?:chatcmpl-|msg_)/;

/** The vendor's id with the prefix of the caller's dialect: clients and their logs recognize a response by it. */
export function toResponseId(target: 'chat' | 'messages', id: string): string {
  return prefixes[target] + id.replace(anyPrefix, '');
}
