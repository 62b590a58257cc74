/** Handles submitted forms: checks the CSRF token, runs the action and records it in the audit log. */
import type { Response } from 'express';
import { GatewayError, gatewayError } from '../../core/errors.ts';
import type { AuthorizeAgain, KeyBodies } from '../../http/body.ts';
import { type FormLimits, readForm } from '../../http/form-body.ts';
import { type ChangeRecorder, recordChange } from '../../people/record-change.ts';
import { createFieldErrors } from './field-errors.ts';
import { describeError } from './field-labels.ts';
import type { Responder } from './respond.ts';
import type { ActionResult, ActionRoute, ConsoleContext } from './route.ts';
import { isCsrfToken } from './same-site.ts';
import type { Visit, VisitedProject } from './visit.ts';

const maxFormBytes = 256 * 1024;
/** The limits on routes that don't need a session, because anybody on the network can send them a form. */
const visitorFormLimits: FormLimits = { maxBytes: 16 * 1024, maxFields: 100 };

interface Submission {
  readonly context: ConsoleContext;
  readonly visit: Visit;
  readonly visited: VisitedProject | null;
  readonly response: Response;
  readonly body: KeyBodies;
  readonly authorizeAgain: AuthorizeAgain | null;
}

/** Runs the action of a form. If the input is rejected, the form is shown again with the errors. */
export async function runSubmitted(
  route: ActionRoute,
  { context, visit, visited, response, body, authorizeAgain }: Submission,
  recorder: ChangeRecorder,
  responder: Responder,
): Promise<void> {
  const limits = route.access === 'anyone' ? visitorFormLimits : { maxBytes: route.maxBytes ?? maxFormBytes };
  const form = await readForm(visit.request, limits, body, authorizeAgain);
  if (!visit.secrets.some((secret) => isCsrfToken(form.get('csrf'), secret)))
    throw gatewayError('forbidden', { message: 'the form has expired: go back, reload the page and submit it again' });
  let result: ActionResult;
  try {
    result = await runAction(route, context, form, visited, recorder);
  } catch (error) {
    if (!route.invalidForm || !isInputError(error)) throw error;
    const page = await route.invalidForm(context, withoutNul(form), createFieldErrors(error.issues));
    return responder.sendPage(response, { ...page, status: 422 }, visit, visited, {
      text: describeError(error),
      tone: 'bad',
    });
  }
  await responder.send(response, result, visit, visited);
}

async function runAction(
  route: ActionRoute,
  context: ConsoleContext,
  form: URLSearchParams,
  visited: VisitedProject | null,
  recorder: ChangeRecorder,
): Promise<ActionResult> {
  const { action } = route;
  const handle = async (): Promise<ActionResult> => {
    assertNoNul(form);
    return route.handle(context, form);
  };
  if (action === null || context.visitor === null) return handle();
  const { project: _slug, ...params } = context.params;
  const start = {
    actor: 'person',
    personId: context.visitor.person.id,
    projectId: visited?.project.id ?? null,
    action,
    target: Object.values(params)[0] ?? null,
  } as const;
  return recordChange(recorder, start, async (note) => {
    const result = await handle();
    note(result.audit ?? {});
    return result;
  });
}

function isInputError(error: unknown): error is GatewayError {
  return error instanceof GatewayError && error.status < 500 && error.code !== 'not_found';
}

/** Throws `bad_request`, because PostgreSQL can't store NUL. */
function assertNoNul(form: URLSearchParams): void {
  const names = new Set([...form].flatMap(([name, value]) => (value.includes('\0') ? [name] : [])));
  if (names.size > 0)
    throw gatewayError('bad_request', { issues: [...names].map((path) => ({ path, message: 'must not contain U+0000' })) });
}

/** HTML can't contain NUL either, so we leave it out when we show the form again. */
function withoutNul(form: URLSearchParams): URLSearchParams {
  return new URLSearchParams([...form].map(([name, value]): [string, string] => [name, value.replaceAll('\0', '')]));
}
