/** Puts waiting messages into groups, one for each end user and one for those without, of a size that a model can read at once. */

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

/** Of one model call; about 15,000 tokens. */
const maxGroupBytes = 60_000;
/** Short ones: so many that what is learned of them can be stored (`extraction.ts`). */
const maxGroupMessages = 1_000;
/** What of a longer message is read (`read-group.ts`). */
export const maxMessageLength = 16_000;
/** A batch's state passes through Temporal as a list of its groups, 16 KiB at most. */
const maxGroups = 100;

interface OpenGroup {
  readonly subject: string | null;
  messages: number;
  bytes: number;
  readonly ranges: MessageRange[];
}

/**
 * `sizes` in the order in which they are to be read. `several`: more than one group for a subject where one does not hold all. What
 * does not fit is left out, and so are all messages behind it in its conversation. `ends` says up to where each conversation has been taken.
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
