/**
 * Places the conversation of a call between 0 and 1, so that all of its turns make the same choice. A conversation is
 * identified by its first user message, because that stays the same from turn to turn. Other calls are placed by their
 * own id.
 */
import { hash } from 'node:crypto';
import type { Call } from '../../core/call.ts';
import { decodeString, type Member, scanElements, scanMembers } from '../../core/json/spans.ts';

/** Longer messages are compared by their beginning. */
const comparedBytes = 8_192;

/**
 * Returns null for a responses request that refers to something that a provider keeps, because another provider doesn't
 * have it. That includes requests without `store: false`, because a later turn may refer to their response.
 */
export function conversationPosition({ id, route, projectSlug, body, spans }: Call): number | null {
  const isStateless = isFalse(body, spans.members.get('store')) && !stateMembers.some((name) => spans.members.has(name));
  if (route === 'responses' && !isStateless) return null;
  const text = firstUserText(body, spans.members.get(route === 'responses' ? 'input' : 'messages'));
  const digest = hash('sha256', text === null ? id : Buffer.concat([Buffer.from(`${projectSlug} `), text]), 'buffer');
  return digest.readUInt32LE() / 2 ** 32;
}

const stateMembers = ['previous_response_id', 'conversation', 'prompt'];

function isFalse(body: Buffer, member: Member | undefined): boolean {
  return member !== undefined && body.toString('latin1', member.value.start, member.value.end) === 'false';
}

const messageMembers: ReadonlySet<string> = new Set(['role', 'content']);
/** The contents of a message's parts. Their other members, such as `cache_control`, may change from turn to turn. */
const partMembers: ReadonlySet<string> = new Set(['text', 'image_url', 'source', 'input_audio', 'file']);

function firstUserText(body: Buffer, list: Member | undefined): Buffer | null {
  if (list?.kind === 'string') return bytesOf(body, list);
  if (list?.kind !== 'array') return null;
  for (const { kind, value } of scanElements(body, list.value.start)) {
    if (kind !== 'object') continue;
    const { members } = scanMembers(body, value.start, messageMembers);
    const role = members.get('role');
    const content = members.get('content');
    if (role?.kind !== 'string' || !content || decodeString(body, role.value) !== 'user') continue;
    return content.kind === 'array' ? bytesOfParts(body, content) : bytesOf(body, content);
  }
  return null;
}

function bytesOfParts(body: Buffer, content: Member): Buffer {
  const parts: Buffer[] = [];
  for (const { kind, value } of scanElements(body, content.value.start))
    if (kind === 'object')
      for (const member of scanMembers(body, value.start, partMembers).members.values()) parts.push(bytesOf(body, member));
  return Buffer.concat(parts);
}

/** Returns a text without its quotes, so that it doesn't matter whether it's a string or the text of a part. */
function bytesOf(body: Buffer, { kind, value: { start, end } }: Member): Buffer {
  return kind === 'string'
    ? body.subarray(start + 1, Math.min(end - 1, start + 1 + comparedBytes))
    : body.subarray(start, Math.min(end, start + comparedBytes));
}
