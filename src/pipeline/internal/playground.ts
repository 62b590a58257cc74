/**
 * Makes the calls of the console's playground. They're routed, recorded and charged like any other call, under the
 * application `gateway-playground`, and limited by the ceilings of the project and the application. They use no virtual
 * key and no memory.
 */
import { noCorrelation } from '../../core/call.ts';
import { asArray, asObject, asString, parseJson } from '../../core/json/narrow.ts';
import { createSseParser } from '../../core/sse.ts';
import type { Clock } from '../../core/time.ts';
import { startCancellation } from '../call/cancellation.ts';
import type { DeliverStream } from '../call/deliver-stream.ts';
import type { HandleCall } from '../call/handle-call.ts';
import { backgroundCaller, buildInternalCall, completionText } from '../call/internal-call.ts';
import type { ProjectContext } from '../call/project-context.ts';

export const playgroundApplication = 'gateway-playground';

/** The time for all attempts together until the response begins. */
const callTimeoutMs = 120_000;

export interface PlaygroundRequest {
  readonly id: string;
  readonly project: { readonly id: string; readonly slug: string; readonly settings: ProjectContext };
  readonly personId: string;
  /** A tier or model. */
  readonly model: string;
  /** Empty for no system prompt. */
  readonly system: string;
  readonly prompt: string;
  readonly temperature: number | null;
  readonly maxTokens: number | null;
  readonly signal: AbortSignal;
}

/**
 * Yields the text of the response as it arrives. Throws a GatewayError. If the call has reached a vendor, it has been
 * recorded by the time this ends.
 */
export type RunInPlayground = (request: PlaygroundRequest) => AsyncGenerator<string, void>;

export function createPlayground({ handleCall, clock }: { readonly handleCall: HandleCall; readonly clock: Clock }): RunInPlayground {
  return async function* run({ id, project, personId, model, signal, ...prompt }) {
    const call = buildInternalCall({
      id,
      route: 'chat',
      caller: backgroundCaller(project.id),
      slug: project.slug,
      source: playgroundApplication,
      model,
      stream: true,
      maxOutputTokens: prompt.maxTokens,
      members: { ...chatMembers(prompt), stream: true },
      timeoutMs: callTimeoutMs,
      now: clock.now(),
      correlation: { ...noCorrelation, triggerKind: 'playground', triggerDetail: personId },
    });
    const cancellation = startCancellation({ stream: true, deadlineAt: call.deadlineAt, clock });
    signal.addEventListener('abort', cancellation.clientDisconnected, { once: true });
    if (signal.aborted) cancellation.clientDisconnected();
    try {
      const response = await handleCall(call, project.settings, cancellation);
      cancellation.clearDeadline();
      if (response.kind === 'plain') yield completionText(response);
      else yield* readDeltas(pullChunks(response.deliver));
    } finally {
      signal.removeEventListener('abort', cancellation.clientDisconnected);
      cancellation.clearDeadline();
    }
  };
}

/** Returns the members of a chat completion, without those that aren't set. */
export function chatMembers({
  system,
  prompt,
  temperature,
  maxTokens,
}: Pick<PlaygroundRequest, 'system' | 'prompt' | 'temperature' | 'maxTokens'>) {
  return {
    messages: [...(system === '' ? [] : [{ role: 'system', content: system }]), { role: 'user', content: prompt }],
    ...(temperature !== null && { temperature }),
    ...(maxTokens !== null && { max_tokens: maxTokens }),
  };
}

/** Yields the chunks of a stream, each one when it's requested. */
async function* pullChunks(deliver: DeliverStream): AsyncGenerator<Buffer, void> {
  let arrived = Promise.withResolvers<Buffer | null>();
  let taken = Promise.withResolvers<boolean>();
  const delivered = deliver((bytes) => {
    arrived.resolve(bytes);
    return taken.promise;
  }).finally(() => arrived.resolve(null));
  try {
    for (let bytes = await arrived.promise; bytes !== null; bytes = await arrived.promise) {
      yield bytes;
      const { resolve } = taken;
      arrived = Promise.withResolvers();
      taken = Promise.withResolvers();
      resolve(true);
    }
  } finally {
    taken.resolve(false);
    await delivered;
  }
}

async function* readDeltas(chunks: AsyncIterable<Buffer>): AsyncGenerator<string, void> {
  const parser = createSseParser();
  for await (const chunk of chunks) {
    const text = parser
      .push(chunk)
      .events.map(({ data }) => textOf(data))
      .join('');
    if (text !== '') yield text;
  }
}

function textOf(data: string): string {
  const [choice] = asArray(asObject(parseJson(data)).choices);
  const { content, refusal } = asObject(asObject(choice).delta);
  return asString(content) ?? asString(refusal) ?? '';
}
