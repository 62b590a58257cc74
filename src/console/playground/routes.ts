/** Serves `/playground`, where people can try the project's models. */

import { formatEvent } from '../../core/sse.ts';
import type { Project } from '../../projects/projects.ts';
import type { ConsoleContext, ConsoleRoute, PageContent } from '../frame/route.ts';
import { type PlaygroundInput, parseInput, readInput } from './input.ts';
import { codeBlocks, type ModelChoice, playgroundPage, type RunResult } from './page.ts';
import { type RunDeps, type RunEnd, runModel } from './run.ts';

export interface PlaygroundDeps extends RunDeps {
  /** Returns the tiers and models that the project may use. */
  readonly listModels: (project: Project) => ModelChoice;
  /** Returns the public URL of the gateway. If it's null, we use the origin of the request. */
  readonly publicUrl: () => string | null;
}

const path = '/playground';
const action = 'playground.run';

export function createPlaygroundRoutes(deps: PlaygroundDeps): readonly ConsoleRoute[] {
  const originFor = ({ url }: ConsoleContext) => deps.publicUrl()?.replace(/\/$/, '') ?? url.origin;
  const page = (context: ConsoleContext, input: PlaygroundInput, results: readonly RunResult[] = []): PageContent =>
    playgroundPage(context, { input, results, choice: deps.listModels(context.project), origin: originFor(context) });

  return [
    { method: 'get', path, access: 'member', handle: async (context) => page(context, readInput(context.url.searchParams)) },
    {
      method: 'post',
      path,
      access: 'member',
      action,
      async handle(context, fields) {
        const input = parseInput(fields);
        const results = await Promise.all(modelsOf(input).map((model) => runToEnd(context, input, model)));
        return { kind: 'page', page: page(context, input, results), audit: { models: modelsOf(input) } };
      },
      invalidForm: async (context, fields) => page(context, readInput(fields)),
    },
    {
      // Runs one model and streams its response as server-sent events. These are `text` events while it responds, and
      // then an `end` event.
      method: 'post',
      path: `${path}/stream`,
      access: 'member',
      action,
      async handle(context, fields) {
        const input = parseInput(fields);
        return { kind: 'stream', contentType: 'text/event-stream', chunks: toEvents(context, input), audit: { models: [input.model] } };
      },
    },
    {
      method: 'post',
      path: `${path}/code`,
      access: 'member',
      action: null,
      handle: async (context, fields) => ({ kind: 'fragment', content: codeBlocks(readInput(fields), originFor(context)) }),
    },
  ];

  async function runToEnd(context: ConsoleContext, input: PlaygroundInput, model: string): Promise<RunResult> {
    let text = '';
    let end: RunEnd | null = null;
    for await (const event of runModel(context, input, model, deps)) {
      if (event.kind === 'text') text += event.text;
      else end = event;
    }
    return { model, text, end };
  }

  async function* toEvents(context: ConsoleContext, input: PlaygroundInput): AsyncGenerator<Uint8Array> {
    for await (const { kind, ...data } of runModel(context, input, input.model, deps)) yield Buffer.from(formatEvent(kind, data));
  }
}

function modelsOf({ model, other }: PlaygroundInput): string[] {
  return other === '' ? [model] : [model, other];
}
