/** Collects what several modules have stored about an end user. */
import { hashSubjectHex } from '../core/subject.ts';
import type { Queries } from '../db/database.ts';
import type { EndUserInventory } from '../http/routes/provision/end-user-routes.ts';
import { isSubjectStored } from '../memory/erasure/stored-subject.ts';
import { findPage } from '../memory/records/pages.ts';
import { countSubject, readConversationTimes } from '../memory/records/subjects.ts';
import { readSubjectCalls } from '../usage/analytics/subject-calls.ts';

export async function readEndUser(queries: Queries, projectId: string, subject: string): Promise<EndUserInventory> {
  const page = await findPage(queries, projectId, subject);
  return {
    isStored: await isSubjectStored(queries, projectId, subject),
    calls: await readSubjectCalls(queries, projectId, hashSubjectHex(subject)),
    counts: await countSubject(queries, projectId, subject),
    times: await readConversationTimes(queries, projectId, subject),
    pageUpdatedAt: page?.updatedAt ?? null,
  };
}
