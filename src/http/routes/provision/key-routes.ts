/** Virtual keys: issue, list, rotate, revoke. */
import type { Router } from 'express';
import { toKeyJson } from '../../../keys/key-record.ts';
import type { IssuedKey, Keyring } from '../../../keys/keyring.ts';
import { param, type Responders, toListJson } from './responders.ts';

export function addKeyRoutes(router: Router, { ofProject }: Responders, keyring: Keyring): void {
  router.get(
    '/teams/:project/keys',
    ofProject(async ({ id }) => toListJson(await keyring.list(id), toKeyJson)),
  );
  router.post(
    '/teams/:project/keys',
    ofProject(async ({ id }, { body }) => toIssuedJson(await keyring.issue(id, body)), 201),
  );
  router.delete(
    '/teams/:project/keys/:prefix',
    ofProject(async ({ id }, request) => toKeyJson(await keyring.revoke(id, param(request, 'prefix')))),
  );
  router.post(
    '/teams/:project/keys/:prefix/rotate',
    ofProject(async ({ id }, request) => toIssuedJson(await keyring.rotate(id, param(request, 'prefix'), request.body)), 201),
  );
}

function toIssuedJson({ secret, record }: IssuedKey): Record<string, unknown> {
  const { revoked_at: _, ...json } = toKeyJson(record);
  return { key: secret, ...json };
}
