/** The routes of a memory's page, where people can correct, remove or pin it. */
import { GatewayError, gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { parseOrBadRequest } from '../../core/parse-or-bad-request.ts';
import { type ItemDetails, readItemDetails } from '../../memory/items/item-details.ts';
import { correctionBody } from '../../memory/items/item-schemas.ts';
import type { Writer } from '../../memory/items/items.ts';
import { listFactsOfItem } from '../../memory/search/graph.ts';
import { authorOf, findAuthors } from '../frame/author.ts';
import type { SubmittedForm } from '../frame/field-errors.ts';
import {
  type ActionResult,
  type ActionRoute,
  type ConsoleContext,
  type ConsoleRoute,
  get,
  type PageContent,
  post,
  type RedirectResult,
} from '../frame/route.ts';
import type { MemoryPagesDeps } from './deps.ts';
import { memoryPath } from './item-view.ts';
import { memoryDetailView } from './memory-detail-view.ts';

const maxFacts = 50;

export function createMemoryDetailRoutes({ queries, items, findNames }: MemoryPagesDeps): readonly ConsoleRoute[] {
  const read = async ({ project, params }: ConsoleContext): Promise<ItemDetails> => {
    const details = await readItemDetails(queries, project.id, idOf(params));
    if (!details) throw gatewayError('not_found', { message: 'no such memory' });
    return details;
  };
  const show = async (context: ConsoleContext, rejected?: SubmittedForm): Promise<PageContent> => {
    const details = await read(context);
    const facts = await listFactsOfItem(queries, details.item.id, maxFacts);
    const names = await findAuthors(
      findNames,
      [details.item, ...details.history].flatMap(({ author, closedBy }) => (closedBy === null ? [author] : [author, closedBy])),
    );
    return memoryDetailView(context, { ...details, facts, names, rejected });
  };

  const showRejected: ActionRoute['invalidForm'] = (context, form, errors) => show(context, { form, errors });

  /**
   * Creates a route that changes a memory. If two people close or restore the same memory, the second one gets a
   * conflict error that explains what happened.
   */
  const action = (
    verb: string,
    run: (change: Change) => Promise<ActionResult>,
    conflict = 'the memory was corrected or removed in the meantime',
  ): ActionRoute =>
    post(`/memory/:id/${verb}`, { access: 'member', action: `memory_item.${verb}`, invalidForm: showRejected }, async (context, fields) => {
      const { project, params, session } = context;
      const id = idOf(params);
      try {
        return await run({ context, fields, projectId: project.id, id, writer: { origin: 'person', author: authorOf(session) } });
      } catch (error) {
        if (!(error instanceof GatewayError && error.code === 'not_found')) throw error;
        await read(context);
        throw gatewayError('conflict', { message: conflict, cause: error });
      }
    });
  const back = ({ context, id }: Change, notice: string, audit: Record<string, unknown> = {}): RedirectResult => ({
    kind: 'redirect',
    to: memoryPath(context, id),
    notice,
    audit: { memory: id, ...audit },
  });

  return [
    get('/memory/:id', 'member', (context) => show(context)),
    action('pin', async (change) => {
      await items.pin(change.projectId, change.id, true, change.writer);
      return back(change, 'The memory is pinned.');
    }),
    action('unpin', async (change) => {
      await items.pin(change.projectId, change.id, false, change.writer);
      return back(change, 'The memory is no longer pinned.');
    }),
    action('confirm', async (change) => {
      await items.confirm(change.projectId, change.id, change.writer);
      return back(change, 'The memory is confirmed. Recall uses it again.');
    }),
    action('correct', async (change) => {
      const { text } = parseOrBadRequest(correctionBody, { text: change.fields.get('text') ?? '' });
      const written = await items.correct(change.projectId, change.id, text, change.writer);
      const replacement = { ...change, id: written.id };
      return back(replacement, 'The memory is corrected. The former text remains in its history.', { corrects: change.id });
    }),
    action('remove', async (change) => {
      await items.remove(change.projectId, change.id, change.writer);
      const undo = { action: `${memoryPath(change.context, change.id)}/restore` };
      return { ...back(change, 'The memory is removed. Recall and search no longer find it.'), undo };
    }),
    action(
      'restore',
      async (change) => {
        const restored = await items.restore(change.projectId, change.id, change.writer);
        const notice = 'The memory is live again, as a new one. Facts that ended with it stay ended.';
        return back({ ...change, id: restored.id }, notice, { restores: change.id });
      },
      'this memory is already live',
    ),
  ];
}

interface Change {
  readonly context: ConsoleContext;
  readonly fields: URLSearchParams;
  readonly projectId: string;
  readonly id: string;
  readonly writer: Writer;
}

function idOf({ id = '' }: Readonly<Record<string, string>>): string {
  if (!isUuid(id)) throw gatewayError('not_found', { message: 'no such memory' });
  return id.toLowerCase();
}
