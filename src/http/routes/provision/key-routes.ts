import { changedMembers } from '../../../core/changed-members.ts';
import type { Issue } from '../../../core/error-messages.ts';
import type { Clock } from '../../../core/time.ts';
import { parseKeyInput } from '../../../keys/key-input.ts';
import { type KeyRecord, toKeyJson } from '../../../keys/key-record.ts';
import type { IssuedKey, Keyring } from '../../../keys/keyring.ts';
import type { Project } from '../../../projects/projects.ts';
import { type Change, param, type Responders, toListJson } from './responders.ts';

export interface KeyRouteDeps {
  readonly keyring: Keyring;
  readonly clock: Clock;
  /** Returns a warning for each name that's neither a tier nor a model of the project, unless it's in `accepted`. */
  readonly findUnusableModels: (project: Project, models: readonly string[], accepted: readonly string[]) => readonly Issue[];
}

/**
 * A key may name unknown models, because tools may issue keys before all processes have loaded a configuration that
 * contains these models. The response then contains warnings, as for routing changes.
 */
export function addKeyRoutes({ readProject, changeProject }: Responders, deps: KeyRouteDeps): void {
  const { keyring, clock, findUnusableModels } = deps;
  const warningsOf = (project: Project, { models }: KeyRecord, known: readonly string[] = []): readonly Issue[] =>
    findUnusableModels(project, models ?? [], known);
  readProject('/teams/:project/keys', async ({ id }) => toListJson(await keyring.list(id), toKeyJson));
  changeProject(
    'post',
    '/teams/:project/keys',
    'key.issue',
    async (project, { body }, change) => {
      const issued = await keyring.issue(project.id, body);
      return { ...answerIssued(issued, change), warnings: warningsOf(project, issued.record) };
    },
    // `gateway keys create` creates the project after a 404, so invalid settings have to be rejected before that.
    ({ body }) => void parseKeyInput(body, clock.now()),
  );
  changeProject('patch', '/teams/:project/keys/:prefix', 'key.change', async (project, request, change) => {
    const { before, after } = await keyring.change(project.id, param(request, 'prefix'), request.body);
    change.note({ name: after.name, changed: changedMembers(toKeyJson(before), toKeyJson(after)) });
    return { ...toKeyJson(after), warnings: warningsOf(project, after, before.models ?? []) };
  });
  changeProject('delete', '/teams/:project/keys/:prefix', 'key.revoke', async ({ id }, request, change) => {
    const record = await keyring.revoke(id, param(request, 'prefix'));
    change.note({ name: record.name });
    return toKeyJson(record);
  });
  changeProject('post', '/teams/:project/keys/:prefix/rotate', 'key.rotate', async ({ id }, request, change) =>
    answerIssued(await keyring.rotate(id, param(request, 'prefix'), request.body), change),
  );
}

/** The response to issuing a key is the only one that contains its secret. */
function answerIssued({ secret, record }: IssuedKey, change: Change): Record<string, unknown> {
  const { revoked_at: _, ...json } = toKeyJson(record);
  change.note(json);
  change.setStatus(201);
  return { key: secret, ...json };
}
