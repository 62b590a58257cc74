import { GatewayError, gatewayError } from '../../core/errors.ts';
import { asArray } from '../../core/json/narrow.ts';
import type { StoreDownPolicy } from '../../core/windows.ts';
import type { KeyRecord } from '../../keys/key-record.ts';
import type { IssuedKey, Keyring } from '../../keys/keyring.ts';
import { assertNotModified } from '../../projects/optimistic-lock.ts';
import type { Catalog } from '../../routing/catalog.ts';
import { findModelStates, findUnknownNames } from '../../routing/key-models.ts';
import { requireConfirmation } from '../frame/components.ts';
import { noErrors } from '../frame/field-errors.ts';
import { numberOrNull } from '../frame/form-values.ts';
import { projectPath } from '../frame/project-path.ts';
import { type ActionResult, type ConsoleContext, type ConsoleRoute, get, type PageContent, post } from '../frame/route.ts';
import { auditOf } from '../frame/settings-edit.ts';
import { keyPage } from './key-detail.ts';
import { assertTimeZone, editKeyPage, issuedKeyPage, newKeyPage, readKeyEdit, readKeyInput, readNewKeyId } from './key-form.ts';
import { exportKeys, type KeyListDeps, showKeys, withUse } from './key-list.ts';

export interface KeyRoutesDeps extends KeyListDeps {
  readonly keyring: Pick<Keyring, 'change' | 'findById' | 'issue' | 'list' | 'read' | 'revoke' | 'rotate'>;
  /** The policy in gateway.yaml, which applies if neither the key nor the project has one. */
  readonly onBudgetStoreDown: () => StoreDownPolicy;
  readonly catalog: () => Catalog;
}

export function createKeyRoutes(deps: KeyRoutesDeps): readonly ConsoleRoute[] {
  const { keyring, catalog, onBudgetStoreDown } = deps;
  const modelStatesOf = ({ project }: ConsoleContext, { models }: KeyRecord) =>
    findModelStates({ catalog: catalog(), project: project.settings }, models ?? []);

  const showKey = async (context: ConsoleContext, form = new URLSearchParams(), errors = noErrors): Promise<PageContent> => {
    const record = await keyring.read(context.project.id, prefixOf(context));
    const [key] = await withUse(deps, context, [record]);
    if (!key) throw gatewayError('not_found', { message: 'no such key' });
    const modelStates = modelStatesOf(context, record);
    return keyPage(context, key, { onBudgetStoreDown: onBudgetStoreDown(), modelStates, form, errors });
  };
  const showNewKey = async (context: ConsoleContext, form = new URLSearchParams(), errors = noErrors): Promise<PageContent> =>
    newKeyPage(context, form, { onBudgetStoreDown: onBudgetStoreDown(), errors });
  const showKeyForm = async (context: ConsoleContext, rejected?: URLSearchParams, errors = noErrors): Promise<PageContent> => {
    const record = await keyring.read(context.project.id, prefixOf(context));
    return editKeyPage(context, record, { onBudgetStoreDown: onBudgetStoreDown(), rejected, errors });
  };

  const issuedPage = (context: ConsoleContext, issued: IssuedKey): PageContent =>
    issuedKeyPage(context, issued, modelStatesOf(context, issued.record));

  /**
   * Throws `bad_request` for unknown names, which are probably typos. Names that the key already has are accepted.
   * Otherwise nobody could edit a key after one of its tiers was removed from the configuration.
   */
  const assertKnownModels = ({ project }: ConsoleContext, models: unknown, kept: unknown = null): void => {
    const isText = (name: unknown): name is string => typeof name === 'string';
    const view = { catalog: catalog(), project: project.settings };
    const issues = findUnknownNames(view, asArray(models).filter(isText), asArray(kept).filter(isText));
    // The form has a single field for all model names, so show every issue at this field. The message quotes the name
    // in question.
    if (issues.length > 0) throw gatewayError('bad_request', { issues: issues.map((issue) => ({ ...issue, path: 'models' })) });
  };

  /** If the form was submitted before and the key exists, returns a redirect to it. Otherwise null. */
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

  /** Calls `issue`, unless the form was submitted before or is being submitted twice at the same moment. */
  const issueOnce = async (context: ConsoleContext, form: URLSearchParams, issue: () => Promise<ActionResult>): Promise<ActionResult> => {
    const repeated = await findIssued(context, form);
    if (repeated) return repeated;
    try {
      return await issue();
    } catch (error) {
      const issued = error instanceof GatewayError && error.code === 'conflict' ? await findIssued(context, form) : null;
      if (issued) return issued;
      throw error;
    }
  };

  return [
    get('/keys', 'member', (context) => showKeys(deps, context)),
    get('/keys.csv', 'member', (context) => exportKeys(deps, context)),
    get('/keys/new', 'owner', (context) => showNewKey(context)),
    get('/keys/:prefix', 'member', (context) => showKey(context)),
    post('/keys', { access: 'owner', action: 'key.issue', invalidForm: showNewKey }, (context, form) =>
      issueOnce(context, form, async () => {
        assertTimeZone(form);
        const input = readKeyInput(form, context.zone);
        assertKnownModels(context, input.models);
        const issued = await keyring.issue(context.project.id, input, readNewKeyId(form, context.now));
        return { kind: 'page', page: issuedPage(context, issued), audit: { prefix: issued.record.prefix, ...input } };
      }),
    ),
    get('/keys/:prefix/edit', 'owner', (context) => showKeyForm(context)),
    post('/keys/:prefix/edit', { access: 'owner', action: 'key.change', invalidForm: showKeyForm }, async (context, form) => {
      assertTimeZone(form);
      const edit = readKeyEdit(form, context.zone);
      const to = projectPath(context, `/keys/${prefixOf(context)}`);
      if (Object.keys(edit.change).length === 0) return { kind: 'redirect', to, notice: 'Nothing was changed.' };
      assertKnownModels(context, edit.change.models, edit.read.models);
      const { after } = await keyring.change(context.project.id, prefixOf(context), edit.change, (current) =>
        assertNotModified(current, edit.read),
      );
      const notice = 'Saved. Calls that start from now on use these settings.';
      return { kind: 'redirect', to, notice, audit: { name: after.name, changed: auditOf(edit) } };
    }),
    post('/keys/:prefix/rotate', { access: 'owner', action: 'key.rotate', invalidForm: showKey }, (context, form) =>
      issueOnce(context, form, async () => {
        const graceSeconds = numberOrNull(form, 'grace_seconds') ?? 0;
        const newId = readNewKeyId(form, context.now);
        const issued = await keyring.rotate(context.project.id, prefixOf(context), { grace_seconds: graceSeconds }, newId);
        const audit = { prefix: prefixOf(context), new_prefix: issued.record.prefix, grace_seconds: graceSeconds };
        return { kind: 'page', page: issuedPage(context, issued), audit };
      }),
    ),
    post('/keys/:prefix/revoke', { access: 'owner', action: 'key.revoke', invalidForm: showKey }, async (context, form) => {
      requireConfirmation(form, prefixOf(context));
      const { name, prefix } = await keyring.revoke(context.project.id, prefixOf(context));
      return { kind: 'redirect', to: projectPath(context, '/keys'), notice: `The key ${name} is revoked.`, audit: { prefix, name } };
    }),
  ];
}

function prefixOf({ params }: ConsoleContext): string {
  return params.prefix ?? '';
}
