/** Lets people list, issue, change, rotate and revoke virtual keys. */

import { gatewayError } from '../../core/errors.ts';
import type { StoreDownPolicy } from '../../core/windows.ts';
import type { IssuedKey, Keyring } from '../../keys/keyring.ts';
import { assertNotModified } from '../../projects/optimistic-lock.ts';
import type { Project } from '../../projects/projects.ts';
import type { KeyModelState } from '../../routing/key-models.ts';
import { requireConfirmation } from '../frame/components.ts';
import { noErrors } from '../frame/field-errors.ts';
import { numberOrNull } from '../frame/form-values.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ActionResult, ConsoleContext, ConsoleRoute, PageContent } from '../frame/route.ts';
import { auditOf } from '../frame/settings-edit.ts';
import { keyPage } from './key-detail.ts';
import { editKeyPage, issuedKeyPage, newKeyPage, readKeyEdit, readKeyInput, readNewKeyId } from './key-form.ts';
import { exportKeys, type KeyListDeps, showKeys, withUse } from './key-list.ts';

export interface KeyRoutesDeps extends KeyListDeps {
  readonly keyring: Pick<Keyring, 'change' | 'findById' | 'issue' | 'list' | 'read' | 'revoke' | 'rotate'>;
  /** The configuration file's default for keys and projects that don't choose a policy. */
  readonly onBudgetStoreDown: () => StoreDownPolicy;
  /** Says whether each name in a key's list of models is a tier or a model that the project can use. */
  readonly modelStates: (project: Project, names: readonly string[]) => ReadonlyMap<string, KeyModelState>;
}

export function createKeyRoutes(deps: KeyRoutesDeps): readonly ConsoleRoute[] {
  const { keyring, onBudgetStoreDown } = deps;

  const showKey = async (context: ConsoleContext, form = new URLSearchParams(), errors = noErrors): Promise<PageContent> => {
    const record = await keyring.read(context.project.id, prefixOf(context));
    const [key] = await withUse(deps, context, [record]);
    if (!key) throw gatewayError('not_found', { message: 'no such key' });
    const modelStates = deps.modelStates(context.project, record.models ?? []);
    return keyPage(context, key, { onBudgetStoreDown: onBudgetStoreDown(), modelStates, form, errors });
  };
  const showNewKey = async (context: ConsoleContext, form = new URLSearchParams(), errors = noErrors): Promise<PageContent> =>
    newKeyPage(context, form, { onBudgetStoreDown: onBudgetStoreDown(), errors });
  const showKeyForm = async (context: ConsoleContext, rejected?: URLSearchParams, errors = noErrors): Promise<PageContent> => {
    const record = await keyring.read(context.project.id, prefixOf(context));
    return editKeyPage(context, record, { onBudgetStoreDown: onBudgetStoreDown(), rejected, errors });
  };

  const issuedPage = (context: ConsoleContext, issued: IssuedKey): PageContent =>
    issuedKeyPage(context, issued, deps.modelStates(context.project, issued.record.models ?? []));

  /** Redirects to the key that the form has issued before. Returns null if it hasn't issued one. */
  const findIssued = async (context: ConsoleContext, form: URLSearchParams): Promise<ActionResult | null> => {
    const id = readNewKeyId(form, context.now);
    const record = id === undefined ? null : await keyring.findById(context.project.id, id);
    return (
      record && {
        kind: 'redirect',
        to: projectPath(context, `/keys/${record.prefix}`),
        notice: 'The key was issued before, and no second one was issued. It cannot be shown again: if you did not copy it, rotate it.',
        audit: { prefix: record.prefix, name: record.name, repeated: true },
      }
    );
  };

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
        const repeated = await findIssued(context, form);
        if (repeated) return repeated;
        const input = readKeyInput(form, context.zone);
        const issued = await keyring.issue(context.project.id, input, readNewKeyId(form, context.now));
        return { kind: 'page', page: issuedPage(context, issued), audit: { prefix: issued.record.prefix, ...input } };
      },
      invalidForm: showNewKey,
    },
    { method: 'get', path: '/keys/:prefix/edit', access: 'owner', handle: (context) => showKeyForm(context) },
    {
      method: 'post',
      path: '/keys/:prefix/edit',
      access: 'owner',
      action: 'key.change',
      async handle(context, form) {
        const edit = readKeyEdit(form, context.zone);
        const to = projectPath(context, `/keys/${prefixOf(context)}`);
        if (Object.keys(edit.change).length === 0) return { kind: 'redirect', to, notice: 'Nothing was changed.' };
        const { after } = await keyring.change(context.project.id, prefixOf(context), edit.change, (current) =>
          assertNotModified(current, edit.read),
        );
        const notice = 'Saved. Calls that start from now on use these settings.';
        return { kind: 'redirect', to, notice, audit: { name: after.name, changed: auditOf(edit) } };
      },
      invalidForm: showKeyForm,
    },
    {
      method: 'post',
      path: '/keys/:prefix/rotate',
      access: 'owner',
      action: 'key.rotate',
      async handle(context, form) {
        const repeated = await findIssued(context, form);
        if (repeated) return repeated;
        const graceSeconds = numberOrNull(form, 'grace_seconds') ?? 0;
        const newId = readNewKeyId(form, context.now);
        const issued = await keyring.rotate(context.project.id, prefixOf(context), { grace_seconds: graceSeconds }, newId);
        const audit = { prefix: prefixOf(context), new_prefix: issued.record.prefix, grace_seconds: graceSeconds };
        return { kind: 'page', page: issuedPage(context, issued), audit };
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
