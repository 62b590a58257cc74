/** Routes to issue, list, change, rotate and revoke virtual keys. */
import type { Router } from 'express';
import { changedMembers } from '../../../core/changed-members.ts';
import { toKeyJson } from '../../../keys/key-record.ts';
import type { IssuedKey, Keyring } from '../../../keys/keyring.ts';
import { type Change, param, type Responders, toListJson } from './responders.ts';

export function addKeyRoutes(router: Router, { readProject, changeProject }: Responders, keyring: Keyring): void {
  router.get(
    '/teams/:project/keys',
    readProject(async ({ id }) => toListJson(await keyring.list(id), toKeyJson)),
  );
  router.post(
    '/teams/:project/keys',
    changeProject('key.issue', async ({ id }, { body }, change) => answerIssued(await keyring.issue(id, body), change)),
  );
  router.patch(
    '/teams/:project/keys/:prefix',
    changeProject('key.change', async ({ id }, request, change) => {
      const { before, after } = await keyring.change(id, param(request, 'prefix'), request.body);
      change.note({ name: after.name, changed: changedMembers(toKeyJson(before), toKeyJson(after)) });
      return toKeyJson(after);
    }),
  );
  router.delete(
    '/teams/:project/keys/:prefix',
    changeProject('key.revoke', async ({ id }, request, change) => {
      const record = await keyring.revoke(id, param(request, 'prefix'));
      change.note({ name: record.name });
      return toKeyJson(record);
    }),
  );
  router.post(
    '/teams/:project/keys/:prefix/rotate',
    changeProject('key.rotate', async ({ id }, request, change) =>
      answerIssued(await keyring.rotate(id, param(request, 'prefix'), request.body), change),
    ),
  );
}

/** No other response contains the secret. */
function answerIssued({ secret, record }: IssuedKey, change: Change): Record<string, unknown> {
  const { revoked_at: _, ...json } = toKeyJson(record);
  change.note(json);
  change.setStatus(201);
  return { key: secret, ...json };
}
