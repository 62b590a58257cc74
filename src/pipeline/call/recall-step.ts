/** Recall on the way of a call: what the project remembers goes into its body, all other bytes stay as they are. */
import type { Call, Candidate } from '../../core/call.ts';
import { scanObject, splice } from '../../core/json/spans.ts';
import { bodyKeys } from '../../dialects/json/body-members.ts';
import { findRecallInsertion } from '../../dialects/prompt/recall-insertion.ts';
import type { Recall, Recalled } from '../../memory/recall/recall.ts';
import type { BudgetReservation } from './budget-reservation.ts';

export interface RecalledCall {
  /** As vendors and the response cache see it. What is recorded is the caller's own. */
  readonly call: Call;
  readonly recalled: Recalled;
}

interface RecallStepOptions {
  readonly call: Call;
  readonly recall: Recall;
  readonly budget: BudgetReservation;
  readonly candidates: readonly Candidate[];
}

/**
 * For a call that asks for it. Null: nothing is recalled, and the call goes on as it came. Never fails. On responses recall acts as write
 * (specification 4.2).
 *
 * The call has its own part of the ceilings meanwhile, and goes on as it came where there is no room for what is recalled.
 */
export async function recallIntoCall({ call, recall, budget, candidates }: RecallStepOptions): Promise<RecalledCall | null> {
  const { route, body, spans, caller, memory } = call;
  if (route !== 'chat' && route !== 'messages') return null;
  const insertion = findRecallInsertion(route, body, spans);
  if (!insertion) return null;
  const mayEmbed = await budget.reserveEarly(call, candidates);
  const recalled = await recall({ caller, subject: memory.subject, text: insertion.userText, mayEmbed });
  if (!recalled) return null;
  const changed = splice(body, insertion.insert(recalled.block));
  const recalledCall = { ...call, body: changed, spans: scanObject(changed, bodyKeys) };
  return (await budget.tryExtend(recalledCall, candidates)) ? { call: recalledCall, recalled } : null;
}
