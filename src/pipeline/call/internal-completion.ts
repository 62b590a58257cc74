/** The gateway's own small calls to a model, on behalf of a caller's call: routed, recorded and paid like any other. */
import type { Call } from '../../core/call.ts';
import { newId } from '../../core/ids.ts';
import { scanObject } from '../../core/json/spans.ts';
import type { Clock } from '../../core/time.ts';
import { chat } from '../../dialects/chat/codec.ts';
import type { Complete } from '../../routing/classify.ts';
import type { CallCancellation } from './cancellation.ts';
import { startCancellation } from './cancellation.ts';
import type { ProjectContext } from './project-context.ts';

/** What a question needs of `answerCall`. */
type HandleInternalCall = (
  call: Call,
  project: ProjectContext,
  control: CallCancellation,
) => Promise<{ readonly kind: 'plain'; readonly bytes: Buffer } | { readonly kind: 'stream' }>;

/** As long as any asker waits (`routing/classify.ts`). */
const timeoutMs = 1_500;

/** Spent by the application whose call it serves. Rejects with what `answerCall` throws, and where the call leaves nothing to ask with. */
export function createInternalCompletion({
  handleCall,
  reserveBudget,
  clock,
  call,
  project,
}: {
  handleCall: HandleInternalCall;
  reserveBudget: () => Promise<boolean>;
  clock: Clock;
  call: Call;
  project: ProjectContext;
}): Complete {
  return async ({ model, system, text, maxOutputTokens }) => {
    if (!(await reserveBudget())) throw new Error('the ceilings leave no room for the call itself');
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
    const internalCall: Call = {
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
      isInternal: true,
      // The same question about the same text has the same answer.
      cache: call.cache,
      correlation: call.correlation,
      deadlineAt: startedAt + timeoutMs,
      forwardedHeaders: {},
    };
    const cancellation = startCancellation({ stream: false, deadlineAt: internalCall.deadlineAt, clock });
    try {
      const response = await handleCall(internalCall, project, cancellation);
      return response.kind === 'plain' ? (chat.parseResponse(response.bytes)?.turn.text ?? '') : '';
    } finally {
      cancellation.clearDeadline();
    }
  };
}
