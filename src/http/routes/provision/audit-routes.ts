import { z } from 'zod';
import { parseOrBadRequest } from '../../../core/parse-or-bad-request.ts';
import { formatTime } from '../../../core/time.ts';
import type { Audit, AuditEntry } from '../../../people/audit.ts';
import type { People } from '../../../people/people.ts';
import { pageLimit, wholeNumber } from '../../query-schemas.ts';
import { type Responders, toListJson } from './responders.ts';

export interface AuditRouteDeps {
  readonly audit: Pick<Audit, 'list'>;
  readonly people: Pick<People, 'accounts'>;
}

export function addAuditRoutes({ read, findProject }: Responders, { audit, people }: AuditRouteDeps): void {
  read('/audit', async (request) => {
    const { project, person, ...filter } = parseOrBadRequest(auditQuery, request.query);
    const projectId = project === undefined ? undefined : (await findProject(project)).id;
    // Don't check that the person exists, because the log keeps the ids of deleted people.
    const personId = person?.includes('@') ? (await people.accounts.findByEmail(person))?.id : person;
    if (person !== undefined && personId === undefined) return toListJson([], toEntryJson);
    return toListJson(await audit.list({ ...filter, projectId, personId }), toEntryJson);
  });
}

const time = z.iso.datetime({ offset: true, error: 'must be a time in RFC 3339, for example 2027-01-01T00:00:00Z' }).transform(Date.parse);

const auditQuery = z.strictObject({
  limit: pageLimit.default(100),
  before: wholeNumber(1, Number.MAX_SAFE_INTEGER).optional(),
  project: z.string().min(1).optional(),
  person: z.union([z.uuid(), z.string().includes('@').max(254)], { error: 'must be an id or an e-mail address' }).optional(),
  action: z.string().min(1).max(100).optional(),
  from: time.optional(),
  to: time.optional(),
});

function toEntryJson({ id, at, actor, personId, person, project, action, target, outcome, detail }: AuditEntry): Record<string, unknown> {
  return {
    ...{ id, at: formatTime(at), actor, person_id: personId, email: person?.email ?? null, project },
    ...{ action, target, outcome, detail },
  };
}
