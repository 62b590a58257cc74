/** Runs a model for the playground. Streams the text, followed by the figures of the recorded call. */
import { GatewayError } from '../../core/errors.ts';
import type { RunInPlayground } from '../../pipeline/internal/playground.ts';
import type { PlaygroundToolCall } from '../../pipeline/internal/playground-prompt.ts';
import type { CallDetail } from '../../usage/analytics/call-detail.ts';
import { formatCount, formatDuration, formatUsd, sentence } from '../frame/components.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext } from '../frame/route.ts';
import type { ParsedInput } from './input.ts';

export interface RunDeps {
  readonly run: RunInPlayground;
  /** Returns null if the call isn't recorded. */
  readonly readCall: (projectId: string, callId: string) => Promise<CallDetail | null>;
  readonly newCallId: () => string;
}

export type RunEvent =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'tools'; readonly calls: readonly PlaygroundToolCall[] }
  | RunEnd;

export interface RunEnd {
  readonly kind: 'end';
  /** Null if the call succeeded. */
  readonly error: string | null;
  readonly figures: readonly (readonly [label: string, value: string])[];
  readonly links: readonly (readonly [label: string, href: string])[];
}

export async function* runModel(
  context: ConsoleContext,
  { input, prompt }: ParsedInput,
  model: string,
  deps: RunDeps,
): AsyncGenerator<RunEvent, void> {
  const { project, session, signal } = context;
  const id = deps.newCallId();
  const { recalls } = input;
  const subject = input.subject === '' ? null : input.subject;
  let recalled: readonly string[] = [];
  let error: string | null = null;
  try {
    for await (const event of deps.run({ id, project, personId: session.person.id, model, prompt, recalls, subject, signal })) {
      if (event.kind === 'recalled') recalled = event.itemIds;
      else if (event.kind === 'tool_calls') yield { kind: 'tools', calls: event.calls };
      else yield event;
    }
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) throw thrown;
    error = sentence(thrown.message);
  }
  const call = await deps.readCall(project.id, id);
  if (call !== null && error === null && call.outcome !== 'ok') error = 'The response ended before it was complete.';
  const memories = recalled.map((item, index) => [`Memory ${index + 1}`, projectPath(context, `/memory/${item}`)] as const);
  yield {
    kind: 'end',
    error,
    figures: call === null ? [] : [...figuresOf(call), ...(recalls ? [['Memories', formatCount(recalled.length)] as const] : [])],
    links: call === null ? memories : [['Show the call', projectPath(context, `/calls/${id}`)], ...memories],
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
