/**
 * Calls that a person makes in the console's playground: routed, limited by the ceilings of project and application, recorded and charged like
 * any call, under the application `gateway-playground`. They use no virtual key and no memory.
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

/** For all attempts together, until the response begins. */
const callTimeoutMs = 120_000;

export interface PlaygroundRequest {
  /** Id of the call. */
  readonly id: string;
  readonly project: { readonly id: string; readonly slug: string; readonly settings: ProjectContext };
  readonly personId: string;
  /** Tier or model. */
  readonly model: string;
  /** Empty: none. */
  readonly system: string;
  readonly prompt: string;
  readonly temperature: number | null;
  readonly maxTokens: number | null;
  /** Cancels the call. */
  readonly signal: AbortSignal;
}

/** Yields the text of the response as it comes. Throws GatewayError; a call that reached a vendor has been recorded when this ends. */
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

/** Members of a chat completion; those that are not set are left out. */
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

/** The chunks of a stream, each when it is asked for. */
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
