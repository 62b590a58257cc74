/** Adds recalled memories to a call's body without touching any other byte. */
import { type Call, isDialect } from '../../core/call.ts';
import type { Candidate } from '../../core/candidate.ts';
import { scanObject, splice } from '../../core/json/spans.ts';
import { bodyKeys } from '../../dialects/json/body-members.ts';
import { findRecallInsertion } from '../../dialects/prompt/recall-insertion.ts';
import type { Recall, Recalled } from '../../memory/recall/recall.ts';
import { projectWideOnly } from '../../memory/text/subject-scope.ts';
import { attributes, spanNames } from '../../observability/trace-names.ts';
import { inSpan } from '../../observability/tracing.ts';
import type { BudgetReservation } from './budget-reservation.ts';

interface RecallStepOptions {
  readonly call: Call;
  readonly recall: Recall;
  readonly budget: BudgetReservation;
  readonly candidates: readonly Candidate[];
  /** Null if the call has no deadline. */
  readonly remainingMs: number | null;
}

export interface RecalledCall {
  readonly call: Call;
  readonly recalled: Recalled;
}

/**
 * Adds recalled memories to a call. Returns null if there's nothing to recall, and then the call continues unchanged.
 * Never throws. On `/v1/responses`, the mode `recall` does the same as `write` (docs/api/reference.md#memory).
 *
 * We reserve the call's budget first. If the longer prompt would exceed a ceiling, we don't recall anything.
 */
export async function recallIntoCall({ call, recall, budget, candidates, remainingMs }: RecallStepOptions): Promise<RecalledCall | null> {
  const { id: callId, route, body, spans, caller, projectSlug, memory } = call;
  if (!isDialect(route)) return null;
  const insertion = findRecallInsertion(route, body, spans);
  if (!insertion) return null;
  const mayCallModels = await budget.reserveEarly(call, candidates);
  const subject = memory.isSubjectInvalid ? projectWideOnly : memory.subject;
  const request = { callId, caller, projectSlug, subject, text: insertion.userText, remainingMs, mayCallModels };
  const recalled = await inSpan(spanNames.recall, { attributes: { [attributes.operation]: spanNames.recall } }, () => recall(request));
  if (!recalled) return null;
  const changed = splice(body, insertion.insert(recalled.block));
  const recalledCall = { ...call, body: changed, spans: scanObject(changed, bodyKeys) };
  return (await budget.tryExtend(recalledCall, candidates)) ? { call: recalledCall, recalled } : null;
}
