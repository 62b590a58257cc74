/** The pages about end users: a list with a search, and what the gateway knows about each of them. */
import { gatewayError } from '../../core/errors.ts';
import { hashSubjectHex, isSubject } from '../../core/subject.ts';
import { findSubjects } from '../../memory/conversations/find-subjects.ts';
import { listConversations } from '../../memory/conversations/list-conversations.ts';
import { isSubjectStored } from '../../memory/erasure/stored-subject.ts';
import { findPage } from '../../memory/records/pages.ts';
import { countSubject, listNewestItems, readConversationTimes } from '../../memory/records/subjects.ts';
import { listFactsOfSubject } from '../../memory/search/graph.ts';
import { endUsersPath, hashParameter } from '../frame/end-user.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageContent } from '../frame/route.ts';
import type { EndUserDeps } from './deps.ts';
import { endUserPage, type KnownEndUser, unnamedPage } from './end-user-page.ts';
import { listPage } from './list-page.ts';

/** How many of the newest memories, conversations and facts a page shows. */
const shown = 5;

export function createEndUserRoutes(deps: EndUserDeps): readonly ConsoleRoute[] {
  return [
    get(endUsersPath, 'member', (context) =>
      deps.readStored(() => {
        const sha256 = context.url.searchParams.get(hashParameter);
        return sha256 === null ? listPage(deps, context) : showHash(deps, context, sha256);
      }, context.project.id),
    ),
    get(`${endUsersPath}/:subject`, 'member', (context) => deps.readStored(() => showEndUser(deps, context), context.project.id)),
  ];
}

async function showEndUser(deps: EndUserDeps, context: ConsoleContext): Promise<PageContent> {
  const { project, params } = context;
  const subject = params.subject ?? '';
  if (!isSubject(subject)) throw notFound('no such end user');
  return endUserPage(context, await read(deps, project.id, subject));
}

async function showHash(deps: EndUserDeps, context: ConsoleContext, sha256: string): Promise<PageContent> {
  const { id } = context.project;
  if (!/^[0-9a-f]{64}$/.test(sha256)) throw notFound('sha256 must be 64 lowercase hexadecimal digits');
  const subject =
    ['.', '..'].find((dots) => hashSubjectHex(dots) === sha256) ?? (await findSubjects(deps.queries, id, [sha256])).get(sha256);
  if (subject !== undefined) return endUserPage(context, await read(deps, id, subject));
  const calls = await deps.analytics.subjectCalls(id, sha256);
  if (calls.calls === 0) throw notFound('no call in this project has an end user with this hash');
  return unnamedPage(context, sha256, calls);
}

function notFound(message: string): Error {
  return gatewayError('not_found', { message });
}

/**
 * Runs the queries one after the other, so that calls still get a database connection if many people have such a page
 * open.
 */
async function read({ queries, analytics }: EndUserDeps, projectId: string, subject: string): Promise<KnownEndUser> {
  const filter = { source: null, subject, state: null };
  return {
    subject,
    isStored: await isSubjectStored(queries, projectId, subject),
    calls: await analytics.subjectCalls(projectId, hashSubjectHex(subject)),
    counts: await countSubject(queries, projectId, subject),
    page: await findPage(queries, projectId, subject),
    times: await readConversationTimes(queries, projectId, subject),
    pinned: await listNewestItems(queries, projectId, { subject, pinned: true, limit: shown }),
    items: await listNewestItems(queries, projectId, { subject, pinned: false, limit: shown }),
    conversations: await listConversations(queries, projectId, filter, { before: null, limit: shown }),
    facts: await listFactsOfSubject(queries, projectId, subject, shown),
  };
}
