/** Makes small model calls while we handle a caller's call, e.g. to choose a tier. */
import { newId } from '../../core/ids.ts';
import type { Complete } from '../../routing/classify.ts';
import {
  buildInternalCall,
  type CompletionResponse,
  completionText,
  type InternalRun,
  promptMessages,
  runInternalCall,
} from './internal-call.ts';

/** `call` is the call that the completions are charged to. */
interface InternalCompletionDeps extends Omit<InternalRun<CompletionResponse>, 'signal'> {
  /**
   * Reserves the budget of the caller's call and checks its prompt. Returns false if the budget can't be reserved, and
   * rejects if a content rule blocks the prompt.
   */
  readonly prepare: () => Promise<boolean>;
}

/** Keep this in sync with `routing/classify.ts`. */
const timeoutMs = 1_500;

/**
 * Returns a function that makes completions. It rejects if the caller's call would exceed its ceilings, or with an
 * error of `handleCall`.
 */
export function createInternalCompletion({ handleCall, prepare, clock, call, project }: InternalCompletionDeps): Complete {
  return async ({ model, system, text, maxOutputTokens, signal }) => {
    if (!(await prepare())) throw new Error('this internal model call would exceed a ceiling');
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
      // The tier only depends on the prompt, so this call can use the response cache if the caller allows it.
      cache,
      correlation,
      isInternal: true,
    });
    return completionText(await runInternalCall({ handleCall, call: internalCall, project, clock }));
  };
}
