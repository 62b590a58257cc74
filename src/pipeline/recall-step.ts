/** Recall on the way of a call: what the project remembers goes into its body, all other bytes stay as they are. */
import type { Holds } from '../ceilings/admission.ts';
import type { Call } from '../core/call.ts';
import { scanObject, splice } from '../core/json-spans.ts';
import { keysOfBodies } from '../dialects/members.ts';
import { findRecallPlace } from '../dialects/recall-place.ts';
import type { Recall, Recalled } from '../memory/recall.ts';

export interface RecalledCall {
  /** As vendors and the response cache see it. What is recorded is the caller's own. */
  readonly call: Call;
  readonly recalled: Recalled;
}

/**
 * For a call that asks for it. Null: nothing is recalled, and the call goes on as it came. Never fails. On responses recall acts as write
 * (specification 4.2).
 *
 * The embedding is paid by the caller's key too. So meanwhile the call has its own part of the ceilings (`hold`): what they leave last is not
 * spent on the recall of a call that is then refused.
 */
export async function recallFor(call: Call, recall: Recall, hold: () => Holds | Promise<Holds>): Promise<RecalledCall | null> {
  const { route, body, spans, caller, memory } = call;
  if (route !== 'chat' && route !== 'messages') return null;
  const place = findRecallPlace(route, body, spans);
  if (!place) return null;
  const held = await tryHold(hold);
  const recalled = await recall({ caller, subject: memory.subject, text: place.userText, mayEmbed: held !== null }).finally(() =>
    held?.release(),
  );
  if (!recalled) return null;
  const changed = splice(body, place.insert(recalled.block));
  return { call: { ...call, body: changed, spans: scanObject(changed, keysOfBodies) }, recalled };
}

/** Null: it is refused, as the call itself will be unless an answer is kept for it. */
async function tryHold(hold: () => Holds | Promise<Holds>): Promise<Holds | null> {
  try {
    return await hold();
  } catch {
    return null;
  }
}
