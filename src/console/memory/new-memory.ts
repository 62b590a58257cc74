import { parseOrBadRequest } from '../../core/parse-or-bad-request.ts';
import { itemBody } from '../../memory/items/item-schemas.ts';
import { authorOf } from '../frame/author.ts';
import { checkboxField, fillFields, form, selectField, textArea, textField, toOptions } from '../frame/components.ts';
import { type FieldErrors, noErrors } from '../frame/field-errors.ts';
import { html } from '../frame/html.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageContent, post } from '../frame/route.ts';
import type { MemoryPagesDeps } from './deps.ts';
import { importanceOptions, kindLabels, memoryPath } from './item-view.ts';

export function createNewMemoryRoutes({ items }: MemoryPagesDeps): readonly ConsoleRoute[] {
  return [
    get('/memory/new', 'member', (context) => newMemoryPage(context, new URLSearchParams({ kind: 'fact', importance: '3' }))),
    post('/memory', { access: 'member', action: 'memory_item.write', invalidForm: newMemoryPage }, async (context, fields) => {
      const item = parseOrBadRequest(itemBody, readItemFields(fields));
      const written = await items.write(context.project.id, item, { origin: 'person', author: authorOf(context.session) });
      const notice =
        written.text === item.text ? 'The memory is saved.' : 'The memory is saved. A credential in it was replaced with a placeholder.';
      return { kind: 'redirect', to: memoryPath(context, written.id), notice, audit: { memory: written.id, pinned: written.pinned } };
    }),
  ];
}

async function newMemoryPage(context: ConsoleContext, given: URLSearchParams, errors: FieldErrors = noErrors): Promise<PageContent> {
  const filled = fillFields(given, errors);
  const content = form({
    context,
    action: memoryPath(context),
    submit: 'Save',
    cancelHref: memoryPath(context),
    fields: [
      textArea({
        ...filled('text'),
        label: 'Text',
        required: true,
        rows: 5,
        maxLength: 4_000,
        hint: 'One statement that can be understood alone. At most 4,000 characters; credentials are replaced with a placeholder.',
      }),
      textField({
        ...filled('subject'),
        label: 'Subject',
        maxLength: 256,
        hint: 'The end user that the memory is about. Leave empty if it is about the whole project.',
      }),
      selectField({
        ...filled('kind'),
        label: 'Kind',
        required: true,
        options: toOptions(kindLabels),
      }),
      selectField({
        ...filled('importance'),
        label: 'Importance',
        required: true,
        options: importanceOptions,
      }),
      checkboxField({
        name: 'pinned',
        label: 'Pin',
        checked: given.has('pinned'),
        hint: 'A pinned memory is part of every wake-up and is never merged.',
      }),
    ],
  });
  return {
    kind: 'page',
    title: 'Write a memory',
    breadcrumbs: [{ label: 'Memory', href: memoryPath(context) }],
    content: html`<div class="card">${content}</div>`,
  };
}

function readItemFields(fields: URLSearchParams): unknown {
  const subject = fields.get('subject') ?? '';
  return {
    text: fields.get('text') ?? '',
    subject: subject === '' ? null : subject,
    kind: fields.get('kind') ?? undefined,
    importance: Number(fields.get('importance') ?? 3),
    pinned: fields.has('pinned'),
  };
}
