/** Rejects keys whose list of models contains names that no call could use. */

import { gatewayError } from '../core/errors.ts';
import { isObject } from '../core/json/narrow.ts';
import type { Keyring } from '../keys/keyring.ts';
import type { Projects } from '../projects/projects.ts';
import type { Catalog } from '../routing/catalog.ts';
import { findUnknownNames } from '../routing/key-models.ts';

export interface CheckedKeyringDeps {
  readonly keyring: Keyring;
  readonly getProject: Projects['get'];
  readonly catalog: () => Catalog;
}

/**
 * `issue` and `change` throw `bad_request` if the input adds an unknown name. Names that the key has already are kept,
 * so that removing a tier from the configuration doesn't make its keys impossible to edit.
 */
export function createCheckedKeyring({ keyring, getProject, catalog }: CheckedKeyringDeps): Keyring {
  const check = async (projectId: string, names: readonly string[]): Promise<void> => {
    if (names.length === 0) return;
    const { settings } = await getProject(projectId);
    const issues = findUnknownNames({ catalog: catalog(), project: settings }, names);
    if (issues.length > 0) throw gatewayError('bad_request', { issues });
  };
  return {
    ...keyring,
    async issue(projectId, input, id) {
      await check(projectId, readNames(input));
      return keyring.issue(projectId, input, id);
    },
    async change(projectId, prefix, input, checkCurrent) {
      const names = readNames(input);
      const known = names.length === 0 ? [] : ((await keyring.read(projectId, prefix)).models ?? []);
      await check(
        projectId,
        names.filter((name) => !known.includes(name)),
      );
      return keyring.change(projectId, prefix, input, checkCurrent);
    },
  };
}

/** Returns the names in the input, unless they are invalid. The keyring rejects invalid ones. */
function readNames(input: unknown): string[] {
  const models = isObject(input) ? input.models : null;
  return Array.isArray(models) ? models.filter((name) => typeof name === 'string') : [];
}
