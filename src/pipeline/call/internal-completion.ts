/** Small model calls that the gateway makes while it handles a caller's call, such as choosing a tier. */
import type { Call } from '../../core/call.ts';
import { newId } from '../../core/ids.ts';
import type { Clock } from '../../core/time.ts';
import type { Complete } from '../../routing/classify.ts';
import type { CallCancellation } from './cancellation.ts';
import { startCancellation } from './cancellation.ts';
import { buildInternalCall, type CompletionResponse, completionText, promptMessages } from './internal-call.ts';
import type { ProjectContext } from './project-context.ts';

interface InternalCompletionDeps {
  /** `HandleCall`, which uses this module. */
  readonly handleCall: (call: Call, project: ProjectContext, cancellation: CallCancellation) => Promise<CompletionResponse>;
  readonly reserveBudget: () => Promise<boolean>;
  readonly clock: Clock;
  /** The caller's call, to which completions are charged. */
  readonly call: Call;
  readonly project: ProjectContext;
}

/** As long as `routing/classify.ts` waits. */
const timeoutMs = 1_500;

/** Creates completions that reject when the caller's call would exceed its ceilings, and with what `handleCall` throws. */
export function createInternalCompletion({ handleCall, reserveBudget, clock, call, project }: InternalCompletionDeps): Complete {
  return async ({ model, system, text, maxOutputTokens }) => {
    if (!(await reserveBudget())) throw new Error('the ceilings are used up by the call itself');
    const now = clock.now();
    const { caller, projectSlug: slug, source, sourceGiven, cache, correlation } = call;
    const internalCall = buildInternalCall({
      id: newId(now),
      route: 'chat',
      caller,
      slug,
      model,
      members: { max_tokens: maxOutputTokens, messages: promptMessages(system, text) },
      timeoutMs,
      now,
      source,
      sourceGiven,
      maxOutputTokens,
      // Equal prompts get equal tiers, so the caller's cache directives apply.
      cache,
      correlation,
      isInternal: true,
    });
    const cancellation = startCancellation({ stream: false, deadlineAt: internalCall.deadlineAt, clock });
    try {
      return completionText(await handleCall(internalCall, project, cancellation));
    } finally {
      cancellation.clearDeadline();
    }
  };
}
