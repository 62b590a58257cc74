/**
 * Imports a public price table. The table is converted to rows for the configured providers, and people see the changes
 * before they import it.
 */
import { gunzipSync, gzipSync } from 'node:zlib';
import { gatewayError } from '../../core/errors.ts';
import { isObject, type JsonObject } from '../../core/json/narrow.ts';
import { parseJsonOrThrow } from '../../core/json/parse.ts';
import type { ImportReceipt } from '../../usage/prices/active-models.ts';
import { defineAsset } from '../frame/assets.ts';
import { badge, definitions, fillFields, notice, form as renderForm, section, table, textArea } from '../frame/components.ts';
import { type FieldErrors, noErrors } from '../frame/field-errors.ts';
import { type Html, html } from '../frame/html.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import { type PricedModel, priceColumns } from './price-columns.ts';
import { pricesPath } from './price-list.ts';

export interface ConvertedPrices {
  /** The price rows in the format of gateway.yaml. The keys are `<provider>/<model>`. */
  readonly models: Readonly<Record<string, JsonObject>>;
  readonly skipped: readonly { readonly entry: string; readonly reason: string }[];
  /** The number of entries that we ignored because they're for vendors that no provider uses. */
  readonly unmatched: number;
}

export interface PricePreview {
  readonly receipt: ImportReceipt;
  readonly before: ReadonlyMap<string, PricedModel>;
  readonly after: ReadonlyMap<string, PricedModel>;
}

const fileScript = defineAsset(new URL('./import-file.js', import.meta.url));

/** Limits the size of the rows after decompression. */
const maxRowBytes = 16 * 1024 * 1024;
/** The maximum number of models or entries that we show in a table. The page also says how many there are in total. */
const maxListed = 200;
const breadcrumbs = [{ label: 'Prices', href: pricesPath }];

export async function importPage(context: ConsoleContext, form: URLSearchParams, errors: FieldErrors = noErrors): Promise<PageContent> {
  const filled = fillFields(form, errors);
  return {
    kind: 'page',
    title: 'Import prices',
    breadcrumbs,
    scripts: [fileScript],
    content: html`<p class="lead">Takes the public price table (<code>model_prices_and_context_window.json</code>). Rows of gateway.yaml keep their price. You see the changes before they are made.</p>
${renderForm({
  context,
  action: `${pricesPath}/preview`,
  submit: 'Show changes',
  cancelHref: pricesPath,
  fields: [
    html`<div class="field" data-file-for="field-table" hidden><label for="field-file">File</label><input id="field-file" type="file" accept=".json,application/json"></div>`,
    textArea({
      ...filled('table'),
      label: 'Price table',
      hint: 'JSON: one member per model.',
      rows: 12,
      code: true,
      required: true,
    }),
    textArea({
      ...filled('as'),
      label: 'Names of vendors in the table',
      hint: html`One a line, as <code>name in the table=provider</code>, for providers whose host is not known.`,
      rows: 2,
      code: true,
      placeholder: 'openai=proxy',
    }),
  ],
})}`,
  };
}

export function previewPage(context: ConsoleContext, converted: ConvertedPrices, preview: PricePreview): PageContent {
  const { receipt, before, after } = preview;
  // Leave out rows whose prices haven't changed, because importing them would only change the recorded source of the
  // price.
  const effective = [...receipt.added, ...receipt.changed];
  const models = Object.fromEntries(effective.map((id) => [id, converted.models[id]]));
  return {
    kind: 'page',
    title: 'Changes of prices',
    breadcrumbs: [...breadcrumbs, { label: 'Import prices', href: `${pricesPath}/import` }],
    content: html`${definitions([
      ['New models', receipt.added.length],
      ['Changed', receipt.changed.length],
      ['Unchanged', receipt.unchanged.length],
      ['Kept by gateway.yaml', receipt.kept_by_file.length],
      ['Not usable', converted.skipped.length],
      ['Of other vendors', converted.unmatched],
    ])}
${
  effective.length === 0
    ? notice('The catalog has these prices already.', 'neutral', 'Nothing would change')
    : renderForm({
        context,
        action: `${pricesPath}/import`,
        submit: `Import ${effective.length} ${effective.length === 1 ? 'row' : 'rows'}`,
        cancelHref: `${pricesPath}/import`,
        fields: [html`<input type="hidden" name="models" value="${gzipSync(JSON.stringify(models)).toString('base64url')}">`],
      })
}
${changeTable('Changed', receipt.changed, before, after)}${changeTable('New', receipt.added, before, after)}${skippedTable(converted)}`,
  };
}

interface Side {
  readonly id: string;
  readonly label: string;
  readonly model: PricedModel | undefined;
}

function changeTable(title: string, ids: readonly string[], before: PricePreview['before'], after: PricePreview['after']): Html | '' {
  if (ids.length === 0) return '';
  const rows = ids.slice(0, maxListed).flatMap((id): Side[] => {
    const now = { id, label: 'after', model: after.get(id) };
    return before.has(id) ? [{ id, label: 'before', model: before.get(id) }, now] : [now];
  });
  return section(
    title,
    table<Side>({
      caption: title,
      rows,
      columns: [
        { label: 'Model', value: ({ id }) => html`<code>${id}</code>`, grow: true },
        ...(rows.length > ids.length
          ? [{ label: 'Price', value: ({ label }: Side) => badge(label, label === 'after' ? 'accent' : 'neutral') }]
          : []),
        { label: 'Kind', value: ({ model }) => model?.kind ?? null, wideOnly: true },
        ...priceColumns<Side>(({ model }) => model ?? null),
      ],
    }),
    ids.length > maxListed ? { hint: `The first ${maxListed} of ${ids.length}.` } : {},
  );
}

function skippedTable({ skipped }: ConvertedPrices): Html | '' {
  if (skipped.length === 0) return '';
  return section(
    'Not usable',
    table({
      caption: 'Entries without a row',
      rows: skipped.slice(0, maxListed),
      columns: [
        { label: 'Entry', value: ({ entry }) => html`<code>${entry}</code>` },
        { label: 'Why', value: ({ reason }) => reason, grow: true },
      ],
    }),
    skipped.length > maxListed ? { hint: `The first ${maxListed} of ${skipped.length}.` } : {},
  );
}

/** Parses the rows that `previewPage` stored in the form. Throws `bad_request` if they're invalid. */
export function parseRows(form: URLSearchParams): JsonObject {
  try {
    const rows = parseJsonOrThrow(
      gunzipSync(Buffer.from(form.get('models') ?? '', 'base64url'), { maxOutputLength: maxRowBytes }).toString(),
    );
    if (isObject(rows)) return rows;
  } catch {
    // Invalid JSON gets the same error as JSON that isn't an object.
  }
  throw gatewayError('bad_request', { message: 'the form is incomplete; go back and select "Show changes" again' });
}
