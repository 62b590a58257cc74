/** Recall on the way of a call: what the project remembers goes into its body, all other bytes stay as they are. */
import type { Call, Candidate } from '../../core/call.ts';
import { scanObject, splice } from '../../core/json/spans.ts';
import { keysOfBodies } from '../../dialects/json/body-members.ts';
import { findRecallPlace } from '../../dialects/prompt/recall-insertion.ts';
import type { Recall, Recalled } from '../../memory/recall/recall.ts';
import type { OwnPart } from './budget-reservation.ts';

export interface RecalledCall {
  /** As vendors and the response cache see it. What is recorded is the caller's own. */
  readonly call: Call;
  readonly recalled: Recalled;
}

interface RecallStep {
  readonly call: Call;
  readonly recall: Recall;
  readonly own: OwnPart;
  readonly candidates: readonly Candidate[];
}

/**
 * For a call that asks for it. Null: nothing is recalled, and the call goes on as it came. Never fails. On responses recall acts as write
 * (specification 4.2).
 *
 * The call has its own part of the ceilings meanwhile, and goes on as it came where there is no room for what is recalled.
 */
export async function recallFor({ call, recall, own, candidates }: RecallStep): Promise<RecalledCall | null> {
  const { route, body, spans, caller, memory } = call;
  if (route !== 'chat' && route !== 'messages') return null;
  const place = findRecallPlace(route, body, spans);
  if (!place) return null;
  const mayEmbed = await own.hold(call, candidates);
  const recalled = await recall({ caller, subject: memory.subject, text: place.userText, mayEmbed });
  if (!recalled) return null;
  const changed = splice(body, place.insert(recalled.block));
  const asked = { ...call, body: changed, spans: scanObject(changed, keysOfBodies) };
  return (await own.fits(asked, candidates)) ? { call: asked, recalled } : null;
}
