/**
 * Makes the calls of the console's playground. They're routed, recorded and charged like any other call, under the
 * application `gateway-playground`. They don't use a virtual key, so only the ceilings of the project and the
 * application apply. Memory never learns from these calls, but they can recall memories.
 */
import { noCorrelation, playgroundApplication } from '../../core/call.ts';
import { asArray, asObject, asString } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import { createSseParser } from '../../core/sse.ts';
import type { Clock } from '../../core/time.ts';
import { createToolCallReader } from '../../dialects/chat/tool-calls.ts';
import { startCancellation } from '../call/cancellation.ts';
import type { DeliverStream } from '../call/deliver-stream.ts';
import type { HandleCall } from '../call/handle-call.ts';
import { backgroundCaller, buildInternalCall } from '../call/internal-call.ts';
import type { ProjectContext } from '../call/project-context.ts';
import { chatMembers, type PlaygroundPrompt, type PlaygroundToolCall } from './playground-prompt.ts';

/** How long all attempts together may take until the response begins. */
const callTimeoutMs = 120_000;

export interface PlaygroundRequest {
  readonly id: string;
  readonly project: { readonly id: string; readonly slug: string; readonly settings: ProjectContext };
  readonly personId: string;
  readonly model: string;
  readonly prompt: PlaygroundPrompt;
  readonly recalls: boolean;
  /** If this is set, we recall the memories of this end user as well as those of the project. */
  readonly subject: string | null;
  readonly signal: AbortSignal;
}

export type PlaygroundEvent =
  | { readonly kind: 'recalled'; readonly itemIds: readonly string[] }
  | { readonly kind: 'text'; readonly text: string }
  /** If the model called tools, this is sent once at the end of the response. */
  | { readonly kind: 'tool_calls'; readonly calls: readonly PlaygroundToolCall[] };

/**
 * Yields the response as it arrives. Throws a GatewayError. By the time the generator ends, the call has been recorded
 * if it reached a vendor.
 */
export type RunInPlayground = (request: PlaygroundRequest) => AsyncGenerator<PlaygroundEvent, void>;

export function createPlayground({ handleCall, clock }: { readonly handleCall: HandleCall; readonly clock: Clock }): RunInPlayground {
  return async function* run({ id, project, personId, model, prompt, recalls, subject, signal }) {
    const call = {
      ...buildInternalCall({
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
      }),
      // Set the subject even if recall is off, because erasures use it to find the stored prompt.
      memory: { mode: recalls ? 'recall' : 'off', explicitWrite: false, subject, isRecorded: false } as const,
    };
    const cancellation = startCancellation({ stream: true, deadlineAt: call.deadlineAt, clock });
    signal.addEventListener('abort', cancellation.clientDisconnected, { once: true });
    if (signal.aborted) cancellation.clientDisconnected();
    try {
      const response = await handleCall(call, project.settings, cancellation);
      cancellation.clearDeadline();
      if (response.recalled.length > 0) yield { kind: 'recalled', itemIds: response.recalled };
      if (response.kind === 'plain') yield* readMessage(response.bytes);
      else yield* readDeltas(pullChunks(response.deliver));
    } finally {
      signal.removeEventListener('abort', cancellation.clientDisconnected);
      cancellation.clearDeadline();
    }
  };
}

/**
 * Turns `deliver`, which pushes chunks into a writer, into a generator. The next chunk is only delivered once the
 * consumer asks for it.
 */
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

function* readMessage(bytes: Buffer): Generator<PlaygroundEvent, void> {
  const message = asObject(asObject(asArray(asObject(parseJson(bytes.toString('utf8'))).choices)[0]).message);
  const collected = collectToolCalls();
  collected.add(message);
  const text = textOf(message);
  if (text !== '') yield { kind: 'text', text };
  yield* collected.events();
}

async function* readDeltas(chunks: AsyncIterable<Buffer>): AsyncGenerator<PlaygroundEvent, void> {
  const parser = createSseParser();
  const collected = collectToolCalls();
  for await (const chunk of chunks) {
    const deltas = parser.push(chunk).events.map(({ data }) => asObject(asObject(asArray(asObject(parseJson(data)).choices)[0]).delta));
    deltas.forEach(collected.add);
    const text = deltas.map(textOf).join('');
    if (text !== '') yield { kind: 'text', text };
  }
  yield* collected.events();
}

function collectToolCalls() {
  const reader = createToolCallReader();
  const calls: { id: string; name: string; arguments: string }[] = [];
  return {
    add(delta: Record<string, unknown>): void {
      for (const { call, argumentText } of reader.read(delta)) {
        const known = calls[call.position];
        // The result of a tool call has to refer to the call's id. Some vendors don't send one, so we make it up.
        const id = call.id ?? `call_${call.position + 1}`;
        calls[call.position] = { id, name: call.name, arguments: `${known?.arguments ?? ''}${argumentText}` };
      }
    },
    *events(): Generator<PlaygroundEvent, void> {
      if (calls.length > 0) yield { kind: 'tool_calls', calls };
    },
  };
}

function textOf({ content, refusal }: Record<string, unknown>): string {
  return asString(content) ?? asString(refusal) ?? '';
}
