import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { formatEvent } from '../../core/sse.ts';
import type { CallText } from '../../memory/conversations/read-call-text.ts';
import type { Project } from '../../projects/projects.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import { type ActionRoute, type ConsoleContext, type ConsoleRoute, get, type PageContent, post } from '../frame/route.ts';
import { editConversation } from './edit-conversation.ts';
import { assertTextLength, maxFormBytes, type ParsedInput, type PlaygroundInput, parseInput, readInput } from './input.ts';
import { codeBlocks, type ModelChoice, playgroundPage, type RunResult } from './page.ts';
import { prefillFrom } from './prefill.ts';
import { type RunDeps, type RunEnd, runModel } from './run.ts';

export interface PlaygroundDeps extends RunDeps {
  readonly listModels: (project: Project) => ModelChoice;
  /** Null if the prompt and response of the call aren't stored. */
  readonly readText: (projectId: string, callId: string) => Promise<CallText | null>;
}

const path = '/playground';
const action = 'playground.run';
const form = { access: 'member', maxBytes: maxFormBytes } as const;

/** Limits the length of the texts. All forms with the person's input have to use this. */
function checked(route: ActionRoute): ActionRoute {
  const { invalidForm } = route;
  return {
    ...route,
    async handle(context, fields) {
      assertTextLength(fields);
      return route.handle(context, fields);
    },
    ...(invalidForm && {
      async invalidForm(context, fields, errors) {
        assertTextLength(fields);
        return invalidForm(context, fields, errors);
      },
    }),
  };
}

export function createPlaygroundRoutes(deps: PlaygroundDeps): readonly ConsoleRoute[] {
  const page = (context: ConsoleContext, input: PlaygroundInput, results: readonly RunResult[] = [], hint?: Html): PageContent =>
    playgroundPage(context, {
      ...{ input, results, choice: deps.listModels(context.project) },
      ...(hint !== undefined && { hint }),
    });

  const forms = [
    post(path, { ...form, action, invalidForm: async (context, fields) => page(context, readInput(fields)) }, async (context, fields) => {
      const parsed = parseInput(fields);
      const models = [parsed.input.model, parsed.input.other].filter((model) => model !== '');
      const results = await Promise.all(models.map((model) => runToEnd(context, parsed, model)));
      return { kind: 'page', page: page(context, parsed.input, results), audit: { models } };
    }),
    // Runs one model and streams its response as server-sent events: `text` events, a `tools` event if it calls tools,
    // and an `end` event.
    post(`${path}/stream`, { ...form, action }, async (context, fields) => {
      const parsed = parseInput(fields);
      const audit = { models: [parsed.input.model] };
      return { kind: 'stream', contentType: 'text/event-stream', chunks: toEvents(context, parsed), audit };
    }),
    // Editing the conversation only changes the form and nothing in the project, so don't audit it.
    post(`${path}/edit`, { ...form, action: null }, async (context, fields) => ({
      kind: 'page',
      page: page(context, editConversation(fields)),
    })),
    post(`${path}/code`, { ...form, action: null }, async (context, fields) => ({
      kind: 'fragment',
      content: codeBlocks(readInput(fields), context.origin),
    })),
  ];

  return [
    get(path, 'member', async (context) => {
      const { searchParams } = context.url;
      const from = searchParams.get('from');
      return from === null || from === '' ? page(context, readInput(searchParams)) : prefilled(context, from);
    }),
    ...forms.map(checked),
  ];

  /** Fills in the form with a stored call. Throws `not_found` if the project has no such call. */
  async function prefilled(context: ConsoleContext, callId: string): Promise<PageContent> {
    const projectId = context.project.id;
    const call = isUuid(callId) ? await deps.readCall(projectId, callId) : null;
    if (call === null) throw gatewayError('not_found');
    const { input, gaps } = prefillFrom(call, await deps.readText(projectId, callId));
    const link = html`<a href="${projectPath(context, `/calls/${callId}`)}">a stored call</a>`;
    const list = gaps.length === 0 ? '' : html`<ul>${gaps.map((gap) => html`<li>${gap}</li>`)}</ul>`;
    const tone = gaps.length === 0 ? 'neutral' : 'warning';
    const hint = html`<div class="notice ${tone}" role="status"><p>This is the prompt of ${link}. A run makes a new call.</p>${list}</div>`;
    return page(context, input, [], hint);
  }

  async function runToEnd(context: ConsoleContext, parsed: ParsedInput, model: string): Promise<RunResult> {
    let text = '';
    let toolCalls: RunResult['toolCalls'] = [];
    let end: RunEnd | null = null;
    for await (const event of runModel(context, parsed, model, deps)) {
      if (event.kind === 'text') text += event.text;
      else if (event.kind === 'tools') toolCalls = event.calls;
      else end = event;
    }
    return { model, text, toolCalls, end };
  }

  async function* toEvents(context: ConsoleContext, parsed: ParsedInput): AsyncGenerator<Uint8Array> {
    for await (const { kind, ...data } of runModel(context, parsed, parsed.input.model, deps)) yield Buffer.from(formatEvent(kind, data));
  }
}
