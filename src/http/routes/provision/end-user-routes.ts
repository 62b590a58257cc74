/** Reports how much is stored about an end user, as counts and times without any text. */
import { toUsd } from '../../../core/cost.ts';
import { gatewayError } from '../../../core/errors.ts';
import { hashSubjectHex, isSubject } from '../../../core/subject.ts';
import { formatTimeOrNull } from '../../../core/time.ts';
import type { BoundedCount, SeenTimes, SubjectCounts } from '../../../memory/records/subjects.ts';
import type { SubjectCalls } from '../../../usage/analytics/subject-calls.ts';
import { param, type Responders } from './responders.ts';

export interface EndUserInventory {
  /** True if we store anything about the end user besides calls, including data that the counts don't cover. */
  readonly isStored: boolean;
  readonly calls: SubjectCalls;
  readonly counts: SubjectCounts;
  /**
   * The times when the end user's first conversation began and when any of their conversations last continued. Null if
   * they have no conversations.
   */
  readonly times: SeenTimes | null;
  readonly pageUpdatedAt: Date | null;
}

export interface EndUserRouteDeps {
  readonly readEndUser: (projectId: string, subject: string) => Promise<EndUserInventory>;
}

export function addEndUserRoutes({ readProject }: Responders, { readEndUser }: EndUserRouteDeps): void {
  readProject('/teams/:project/end-users/:subject', async ({ id, slug }, request) => {
    const subject = param(request, 'subject');
    const message = 'must be 1 to 256 characters without control characters';
    if (!isSubject(subject)) throw gatewayError('bad_request', { issues: [{ path: 'subject', message }] });
    const inventory = await readEndUser(id, subject);
    if (!inventory.isStored && inventory.calls.calls === 0)
      throw gatewayError('not_found', { message: 'nothing is stored about this end user' });
    return { object: 'end_user', project: slug, subject_sha256: hashSubjectHex(subject), ...toJson(inventory) };
  });
}

function toJson({ calls, counts, times, pageUpdatedAt }: EndUserInventory) {
  const { live, pinned, closed, conversations, facts, endedFacts, prompts } = counts;
  const seen = [calls.firstAt, calls.lastAt, times?.first, times?.last].flatMap((at) => at?.getTime() ?? []);
  const seenAt = (choose: (...epochs: number[]) => number): string | null =>
    formatTimeOrNull(seen.length === 0 ? null : new Date(choose(...seen)));
  return {
    first_seen_at: seenAt(Math.min),
    last_seen_at: seenAt(Math.max),
    calls: {
      ...toCount({ count: calls.calls, isMore: calls.isMore }),
      ...{ errors: calls.errors, cost: toUsd(Number(calls.costNanos)), calls_of_unknown_cost: calls.unpriced },
    },
    ...{ memories: toCount(live), pinned_memories: toCount(pinned), closed_memories: toCount(closed) },
    ...{ conversations: toCount(conversations), facts: toCount(facts), ended_facts: toCount(endedFacts), prompts: toCount(prompts) },
    profile_page_updated_at: formatTimeOrNull(pageUpdatedAt),
  };
}

function toCount({ count, isMore }: BoundedCount) {
  return { count, has_more: isMore };
}
