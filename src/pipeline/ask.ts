/** The gateway's own small calls to a model, on behalf of a caller's call: routed, recorded and paid like any other. */
import type { Call } from '../core/call.ts';
import { newId } from '../core/ids.ts';
import { scanObject } from '../core/json-spans.ts';
import type { Clock } from '../core/time.ts';
import { chat } from '../dialects/chat.ts';
import type { Ask } from '../routing/classify.ts';
import type { ProjectRouting } from '../routing/rules.ts';
import type { AnswerCall } from './answer.ts';
import { startControl } from './control.ts';

/** Application under which the spend of classifying `auto` calls is recorded. */
export const autoSource = 'gateway-auto';

/** Such a call never outlives this, whatever its asker does. */
const askLimitMs = 5_000;

/** Rejects with what `answerCall` throws. The prompt holds the caller's text, so it keeps the call's subject, for erasure. */
export function createAsk({
  answerCall,
  clock,
  call,
  project,
}: {
  answerCall: AnswerCall;
  clock: Clock;
  call: Call;
  project: ProjectRouting;
}): Ask {
  return async ({ model, system, text, maxOutputTokens }) => {
    const startedAt = clock.now();
    const body = Buffer.from(
      JSON.stringify({
        model,
        max_tokens: maxOutputTokens,
        messages: [
          { role: 'system', content: system },
          { role: 'user', content: text },
        ],
      }),
    );
    const own: Call = {
      id: newId(startedAt),
      startedAt,
      route: 'chat',
      caller: call.caller,
      projectSlug: call.projectSlug,
      source: autoSource,
      sourceGiven: true,
      modelAsked: model,
      stream: false,
      body,
      spans: scanObject(body),
      maxOutputTokens,
      memory: { mode: 'off', explicitWrite: false, subject: call.memory.subject },
      correlation: call.correlation,
      deadlineAt: startedAt + askLimitMs,
      passedHeaders: {},
    };
    const control = startControl({ stream: false, deadlineAt: own.deadlineAt, clock });
    try {
      const answer = await answerCall(own, project, control);
      return answer.kind === 'plain' ? (chat.readAnswer(answer.bytes)?.turn.text ?? '') : '';
    } finally {
      control.endDeadline();
    }
  };
}
