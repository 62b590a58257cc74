/**
 * Splits waiting messages into groups that fit into a single model call. Every group belongs to one end user, or
 * contains only messages without an end user.
 */

export interface MessageSize {
  readonly conversationId: string;
  readonly subject: string | null;
  readonly position: number;
  readonly bytes: number;
}

interface MessageRange {
  readonly conversationId: string;
  readonly from: number;
  to: number;
}

export interface PlannedGroup {
  readonly subject: string | null;
  readonly messages: number;
  readonly ranges: readonly MessageRange[];
}

/** The maximum size of the text in a model call, in bytes. That's about 15,000 tokens. */
const maxGroupBytes = 60_000;
/**
 * The maximum number of messages in a group. If there were more of them, even short ones, there might not be enough
 * room for what we learn from them (`extraction.ts`).
 */
const maxGroupMessages = 1_000;
/** `group-messages.ts` truncates messages to this many characters. */
export const maxMessageLength = 16_000;
/**
 * The maximum number of groups in a batch. We send the list of groups to Temporal, where our payloads are limited to 16
 * KiB.
 */
const maxGroups = 100;

interface OpenGroup {
  readonly subject: string | null;
  messages: number;
  bytes: number;
  readonly ranges: MessageRange[];
}

/**
 * Distributes the waiting messages among the groups of a batch. `sizes` has to be in reading order. If `allowMultiple`
 * is false, each subject gets only one group.
 *
 * A message that doesn't fit waits for another batch, together with all later messages of its conversation. `ends`
 * contains the position at which the next batch continues each conversation.
 */
export function planGroups(
  sizes: readonly MessageSize[],
  { allowMultiple }: { readonly allowMultiple: boolean },
): { groups: readonly PlannedGroup[]; ends: ReadonlyMap<string, number> } {
  const groups: OpenGroup[] = [];
  const open = new Map<string | null, OpenGroup>();
  const ends = new Map<string, number>();
  const closed = new Set<string>();
  for (const { conversationId, subject, position, bytes } of sizes) {
    if (closed.has(conversationId)) continue;
    const size = Math.min(bytes, maxMessageLength);
    let group = open.get(subject);
    const isFull = group !== undefined && group.messages > 0 && (group.bytes + size > maxGroupBytes || group.messages >= maxGroupMessages);
    if (group === undefined || (isFull && allowMultiple)) {
      if (groups.length >= maxGroups) {
        closed.add(conversationId);
        continue;
      }
      group = { subject, messages: 0, bytes: 0, ranges: [] };
      groups.push(group);
      open.set(subject, group);
    } else if (isFull) {
      closed.add(conversationId);
      continue;
    }
    group.messages += 1;
    group.bytes += size;
    const range = group.ranges.at(-1);
    if (range?.conversationId === conversationId && range.to === position) range.to = position + 1;
    else group.ranges.push({ conversationId, from: position, to: position + 1 });
    ends.set(conversationId, position + 1);
  }
  return { groups: groups.map(({ bytes: _, ...group }) => group), ends };
}
