/** Small model calls that the gateway makes while it handles a caller's call, such as choosing a tier. */
import { newId } from '../../core/ids.ts';
import type { Complete } from '../../routing/classify.ts';
import type { CompletionResponse, InternalRun } from './internal-call.ts';
import { buildInternalCall, completionText, promptMessages, runInternalCall } from './internal-call.ts';

/** `call`: the caller's, to which completions are charged. */
interface InternalCompletionDeps extends Omit<InternalRun<CompletionResponse>, 'signal'> {
  /**
   * Reserves the budget of the caller's call and checks its prompt. Returns false if the budget can't be reserved, and
   * rejects if a content rule blocks the prompt.
   */
  readonly prepare: () => Promise<boolean>;
}

/** As long as `routing/classify.ts` waits. */
const timeoutMs = 1_500;

/** Creates completions that reject when the caller's call would exceed its ceilings, and with what `handleCall` throws. */
export function createInternalCompletion({ handleCall, prepare, clock, call, project }: InternalCompletionDeps): Complete {
  return async ({ model, system, text, maxOutputTokens, signal }) => {
    if (!(await prepare())) throw new Error('the ceilings are used up by the call itself');
    signal.throwIfAborted();
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
    return completionText(await runInternalCall({ handleCall, call: internalCall, project, clock }));
  };
}
