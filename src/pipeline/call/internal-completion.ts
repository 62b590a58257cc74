/** Makes small model calls while we handle a caller's call, e.g. to choose a tier. */
import { newId } from '../../core/ids.ts';
import type { Complete } from '../../routing/classify.ts';
import type { CompletionResponse, InternalRun } from './internal-call.ts';
import { buildInternalCall, completionText, promptMessages, runInternalCall } from './internal-call.ts';

/** `call` is the caller's call, to which the completions are charged. */
interface InternalCompletionDeps extends Omit<InternalRun<CompletionResponse>, 'signal'> {
  /**
   * Reserves the budget of the caller's call and checks its prompt. Returns false if the budget can't be reserved, and
   * rejects if a content rule blocks the prompt.
   */
  readonly prepare: () => Promise<boolean>;
}

/** The same as the timeout in `routing/classify.ts`. */
const timeoutMs = 1_500;

/**
 * Creates a function that makes completions. They reject if the caller's call would exceed its ceilings, and with any
 * error of `handleCall`.
 */
export function createInternalCompletion({ handleCall, prepare, clock, call, project }: InternalCompletionDeps): Complete {
  return async ({ model, system, text, maxOutputTokens, signal }) => {
    if (!(await prepare())) throw new Error('the ceilings are used up by the call itself');
    signal.throwIfAborted();
    const now = clock.now();
    const { caller, projectSlug: slug, source, hasExplicitSource, cache, correlation } = call;
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
      hasExplicitSource,
      maxOutputTokens,
      // Equal prompts get equal tiers, so we apply the caller's cache directives.
      cache,
      correlation,
      isInternal: true,
    });
    return completionText(await runInternalCall({ handleCall, call: internalCall, project, clock }));
  };
}
