/** Lets people list, issue, rotate and revoke virtual keys. */

import type { StoreDownPolicy } from '../../core/windows.ts';
import type { Keyring } from '../../keys/keyring.ts';
import { requireConfirmation } from '../frame/components.ts';
import { noErrors } from '../frame/field-errors.ts';
import { numberOrNull } from '../frame/form-values.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, ConsoleRoute, PageContent } from '../frame/route.ts';
import { keyPage } from './key-detail.ts';
import { issuedKeyPage, newKeyPage, readKeyInput } from './key-form.ts';
import { exportKeys, type KeyListDeps, showKeys, withUse } from './key-list.ts';

export interface KeyRoutesDeps extends KeyListDeps {
  readonly keyring: Pick<Keyring, 'issue' | 'list' | 'read' | 'revoke' | 'rotate'>;
  /** The configuration file's default for keys and projects that don't choose a policy. */
  readonly onBudgetStoreDown: () => StoreDownPolicy;
}

export function createKeyRoutes(deps: KeyRoutesDeps): readonly ConsoleRoute[] {
  const { keyring, onBudgetStoreDown } = deps;

  const showKey = async (context: ConsoleContext, form = new URLSearchParams(), errors = noErrors): Promise<PageContent> => {
    const record = await keyring.read(context.project.id, prefixOf(context));
    const [key] = await withUse(deps, context.project.id, [record], context.now);
    const used = key ?? { record, uses: [], lastUsedAt: null };
    return keyPage(context, used, { onBudgetStoreDown: onBudgetStoreDown(), form, errors });
  };
  const showNewKey = async (context: ConsoleContext, form = new URLSearchParams(), errors = noErrors): Promise<PageContent> =>
    newKeyPage(context, form, { onBudgetStoreDown: onBudgetStoreDown(), errors });

  return [
    { method: 'get', path: '/keys', access: 'member', handle: (context) => showKeys(deps, context) },
    { method: 'get', path: '/keys.csv', access: 'member', handle: (context) => exportKeys(deps, context) },
    { method: 'get', path: '/keys/new', access: 'owner', handle: (context) => showNewKey(context) },
    { method: 'get', path: '/keys/:prefix', access: 'member', handle: (context) => showKey(context) },
    {
      method: 'post',
      path: '/keys',
      access: 'owner',
      action: 'key.issue',
      async handle(context, form) {
        const input = readKeyInput(form, context.zone);
        const issued = await keyring.issue(context.project.id, input);
        return { kind: 'page', page: issuedKeyPage(context, issued), audit: { prefix: issued.record.prefix, ...input } };
      },
      invalidForm: showNewKey,
    },
    {
      method: 'post',
      path: '/keys/:prefix/rotate',
      access: 'owner',
      action: 'key.rotate',
      async handle(context, form) {
        const graceSeconds = numberOrNull(form, 'grace_seconds') ?? 0;
        const issued = await keyring.rotate(context.project.id, prefixOf(context), { grace_seconds: graceSeconds });
        const audit = { prefix: prefixOf(context), new_prefix: issued.record.prefix, grace_seconds: graceSeconds };
        return { kind: 'page', page: issuedKeyPage(context, issued), audit };
      },
      invalidForm: showKey,
    },
    {
      method: 'post',
      path: '/keys/:prefix/revoke',
      access: 'owner',
      action: 'key.revoke',
      async handle(context, form) {
        requireConfirmation(form, prefixOf(context));
        const { name, prefix } = await keyring.revoke(context.project.id, prefixOf(context));
        return { kind: 'redirect', to: projectPath(context, '/keys'), notice: `The key ${name} is revoked.`, audit: { prefix, name } };
      },
      invalidForm: showKey,
    },
  ];
}

function prefixOf({ params }: ConsoleContext): string {
  return params.prefix ?? '';
}
