/**
 * Finds out which conversation a call belongs to, so that all of its turns are sent to the same member of a pool and
 * get the same random choices. Unless the call refers to an earlier response or conversation, we recognize its
 * conversation by the first user message. That stays the same from turn to turn, whereas many conversations share a
 * system prompt.
 */
import { hash, randomInt } from 'node:crypto';
import type { Call } from '../../core/call.ts';
import { decodeString, type Member, scanElements, scanMembers } from '../../core/json/spans.ts';
import { type Affinity, hashText, type PoolState } from '../../routing/pools.ts';

/** The fields of a `/v1/responses` request that refer to state in the vendor's account. */
const stateMembers = ['previous_response_id', 'conversation', 'prompt'];

/**
 * Returns true if the call refers to state that a vendor stores, so that perhaps only one member of a pool can serve
 * it.
 */
export function refersToState({ route, spans }: Call): boolean {
  return route === 'responses' && stateMembers.some((name) => isSet(spans.members.get(name)));
}

export function affinityOf(call: Call, { responses }: PoolState): Affinity {
  const { route, body, spans } = call;
  if (route === 'responses') {
    const previous = spans.members.get('previous_response_id');
    if (previous?.kind === 'string') {
      const id = decodeString(body, previous.value);
      return { hash: hashText(id), member: responses.get(id) ?? null };
    }
    const conversation = spans.members.get('conversation');
    if (isSet(conversation)) return { hash: hashText(body.subarray(conversation.value.start, conversation.value.end)), member: null };
  }
  const text = firstUserText(call);
  return { hash: text === null ? randomInt(2 ** 32) : hashText(text), member: null };
}

/**
 * Maps each conversation to a number between 0 and 1, so that all of its calls make the same random choices. The number
 * is a hash of the first user message, or of the call's id if there is no such message.
 *
 * Returns null for `/v1/responses` calls that are tied to a provider. That's the case if the call refers to state that
 * only its provider has, or if the vendor stores the response (i.e. without `store: false`) and a later call may refer
 * to it.
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

function isSet(member: Member | undefined): member is Member {
  return member !== undefined && member.kind !== 'null';
}

const messageKeys: ReadonlySet<string> = new Set(['role', 'content']);
/**
 * The fields with the content of a message part. Ignore other fields such as `cache_control`, because they may change
 * from one request of a conversation to the next.
 */
const partKeys: ReadonlySet<string> = new Set(['text', 'image_url', 'source', 'input_audio', 'file', 'file_data', 'file_id']);

/** Returns the beginning and the end of the first user message, or null if there is none. */
function firstUserText({ route, body, spans }: Call): Buffer | null {
  const list = spans.members.get(route === 'responses' ? 'input' : 'messages');
  if (list?.kind === 'string') return textOf(body, list);
  if (list?.kind !== 'array') return null;
  for (const { kind, value } of scanElements(body, list.value.start)) {
    if (kind !== 'object') continue;
    const { members } = scanMembers(body, value.start, messageKeys);
    const role = members.get('role');
    const content = members.get('content');
    if (role?.kind !== 'string' || !content || decodeString(body, role.value) !== 'user') continue;
    return content.kind === 'array' ? textOfParts(body, content) : textOf(body, content);
  }
  return null;
}

function textOfParts(body: Buffer, content: Member): Buffer {
  const texts: Buffer[] = [];
  for (const { kind, value } of scanElements(body, content.value.start))
    if (kind === 'object') for (const member of scanMembers(body, value.start, partKeys).members.values()) texts.push(textOf(body, member));
  return texts.length === 0 ? textOf(body, content) : sample(Buffer.concat(texts));
}

function textOf(body: Buffer, { kind, value: { start, end } }: Pick<Member, 'kind' | 'value'>): Buffer {
  return sample(kind === 'string' ? body.subarray(start + 1, end - 1) : body.subarray(start, end));
}

const sampleBytes = 8_192;

/**
 * Returns the beginning and the end of a long text, so that hashing it is fast. We need the end because coding agents
 * often put long instructions, which many conversations share, before the user's own text.
 */
function sample(text: Buffer): Buffer {
  return text.length <= 2 * sampleBytes ? text : Buffer.concat([text.subarray(0, sampleBytes), text.subarray(-sampleBytes)]);
}
