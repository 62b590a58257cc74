/** The gateway's own small calls to a model, on behalf of a caller's call: routed, recorded and paid like any other. */
import type { Call } from '../../core/call.ts';
import { newId } from '../../core/ids.ts';
import { scanObject } from '../../core/json/spans.ts';
import type { Clock } from '../../core/time.ts';
import { chat } from '../../dialects/chat/codec.ts';
import type { Ask } from '../../routing/classify.ts';
import type { CallControl } from './cancellation.ts';
import { startControl } from './cancellation.ts';
import type { CalledProject } from './project-context.ts';

/** What a question needs of `answerCall`. */
type AnswerQuestion = (
  call: Call,
  project: CalledProject,
  control: CallControl,
) => Promise<{ readonly kind: 'plain'; readonly bytes: Buffer } | { readonly kind: 'stream' }>;

/** As long as any asker waits (`routing/classify.ts`). */
const askLimitMs = 1_500;

/** Spent by the application whose call it serves. Rejects with what `answerCall` throws, and where the call leaves nothing to ask with. */
export function createAsk({
  answerCall,
  mayAsk,
  clock,
  call,
  project,
}: {
  answerCall: AnswerQuestion;
  mayAsk: () => Promise<boolean>;
  clock: Clock;
  call: Call;
  project: CalledProject;
}): Ask {
  return async ({ model, system, text, maxOutputTokens }) => {
    if (!(await mayAsk())) throw new Error('the ceilings leave no room for the call itself');
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
      source: call.source,
      sourceGiven: call.sourceGiven,
      modelAsked: model,
      stream: false,
      body,
      spans: scanObject(body),
      maxOutputTokens,
      memory: { mode: 'off', explicitWrite: false, subject: null },
      isOwn: true,
      // The same question about the same text has the same answer.
      cache: call.cache,
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
