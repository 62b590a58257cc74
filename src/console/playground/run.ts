/** Runs a model for the playground. Streams the text first, and then the figures of the recorded call. */
import { GatewayError } from '../../core/errors.ts';
import type { RunInPlayground } from '../../pipeline/internal/playground.ts';
import type { CallDetail } from '../../usage/analytics/call-detail.ts';
import { formatCount, formatDuration, formatUsd, sentence } from '../frame/components.ts';
import type { ConsoleContext } from '../frame/route.ts';
import type { PlaygroundInput } from './input.ts';

export interface RunDeps {
  readonly run: RunInPlayground;
  /** Returns the recorded call, or null if we didn't record one. */
  readonly readCall: (projectId: string, callId: string) => Promise<CallDetail | null>;
  readonly newCallId: () => string;
}

export type RunEvent = { readonly kind: 'text'; readonly text: string } | RunEnd;

export interface RunEnd {
  readonly kind: 'end';
  /** The reason why the call failed, or null if it succeeded. */
  readonly error: string | null;
  /** The labels and values of the figures. */
  readonly figures: readonly (readonly [label: string, value: string])[];
  /** The page of the call, or null if we didn't record one. */
  readonly href: string | null;
}

export async function* runModel(
  context: ConsoleContext,
  input: PlaygroundInput,
  model: string,
  deps: RunDeps,
): AsyncGenerator<RunEvent, void> {
  const { project, session, signal } = context;
  const id = deps.newCallId();
  let error: string | null = null;
  try {
    for await (const text of deps.run({ ...input, id, project, personId: session.person.id, model, signal })) yield { kind: 'text', text };
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) throw thrown;
    error = sentence(thrown.message);
  }
  const call = await deps.readCall(project.id, id);
  if (call !== null && error === null && call.outcome !== 'ok') error = 'The response ended before it was complete.';
  yield {
    kind: 'end',
    error,
    figures: call === null ? [] : figuresOf(call),
    href: call === null ? null : `/console/p/${project.slug}/calls/${id}`,
  };
}

function figuresOf({ model, cache, durationMs, firstByteMs, tokens, costNanos, attempts }: CallDetail): RunEnd['figures'] {
  const input = tokens.input + tokens.cachedInput + tokens.cacheWrite + tokens.cacheWrite1h;
  return [
    ['Model', model ?? '–'],
    ['Latency', formatDuration(durationMs)],
    ['First chunk', formatDuration(firstByteMs)],
    ['Input tokens', formatCount(input)],
    ['Output tokens', formatCount(tokens.output)],
    ['Cost', cache === 'hit' ? `${formatUsd(0)} (cached)` : formatUsd(costNanos)],
    ...(attempts.length > 1 ? [['Attempts', formatCount(attempts.length)] as const] : []),
  ];
}
