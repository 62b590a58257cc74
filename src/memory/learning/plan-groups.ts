/** Groups waiting messages by end user (one group for those without) in sizes that fit one model call. */

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

/** Per model call; about 15,000 tokens. */
const maxGroupBytes = 60_000;
/** Bounds groups of short messages, so that what is learned from them can be stored (`extraction.ts`). */
const maxGroupMessages = 1_000;
/** The model reads this much of a longer message (`group-messages.ts`). */
export const maxMessageLength = 16_000;
/** The group list of a batch passes through Temporal, at most 16 KiB. */
const maxGroups = 100;

interface OpenGroup {
  readonly subject: string | null;
  messages: number;
  bytes: number;
  readonly ranges: MessageRange[];
}

/**
 * `sizes` are in reading order. Without `allowMultiple` a subject gets one group; messages that do not fit are left out, with all later ones
 * of their conversation. `ends` is the position up to which each conversation was planned.
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
