/** Pages about prices. Everybody can see prices, but only deployment admins can import them. */
import type { ImportReceipt } from '../../usage/prices/active-models.ts';
import { type ConsoleRoute, get, post } from '../frame/route.ts';
import { type ConvertedPrices, importPage, type PricePreview, parseRows, previewPage } from './import-page.ts';
import { exportHistory, exportPrices, modelPath, type PriceListDeps, pricesPath, showModel, showPrices } from './price-list.ts';

export interface PriceRoutesDeps extends PriceListDeps {
  /**
   * Converts a public price table to rows for the configured providers. `as` maps the names in the table to providers,
   * with entries such as `<name in the table>=<provider>`. Throws `bad_request` if the table or an entry is invalid.
   */
  readonly convertTable: (text: string, as: readonly string[]) => ConvertedPrices;
  /** Returns the changes of an import. Throws a `bad_request` that lists all mistakes. */
  readonly preview: (models: unknown) => PricePreview;
  /**
   * Imports the rows. A null row removes the row that was imported for this model. Throws the same errors as `preview`.
   */
  readonly importModels: (models: unknown) => Promise<ImportReceipt>;
}

const path = '/admin/prices';
/**
 * The public price table has about 2 MB, which is more than the default limit, and form encoding makes it even larger.
 */
const maxBytes = 16 * 1024 * 1024;

export function createPriceRoutes(deps: PriceRoutesDeps): readonly ConsoleRoute[] {
  return [
    get(path, 'person', (context) => showPrices(deps, context)),
    get(`${path}.csv`, 'person', (context) => exportPrices(deps, context)),
    get(`${path}/model`, 'person', (context) => showModel(deps, context)),
    get(`${path}/model.csv`, 'person', (context) => exportHistory(deps, context)),
    get(`${path}/import`, 'admin', (context) => importPage(context, new URLSearchParams())),
    post(`${path}/preview`, { access: 'admin', action: null, maxBytes, invalidForm: importPage }, async (context, form) => {
      const as = (form.get('as') ?? '').split(/\s+/).filter((line) => line !== '');
      const converted = deps.convertTable(form.get('table') ?? '', as);
      return { kind: 'page', page: previewPage(context, converted, deps.preview(converted.models)) };
    }),
    post(
      `${path}/import`,
      {
        access: 'admin',
        action: 'prices.import',
        maxBytes,
        invalidForm: importPage,
      },
      async (_context, form) => {
        const { added, changed } = await deps.importModels(parseRows(form));
        const notice = `${added.length} new models, ${changed.length} changed. Calls that start from now on use these prices.`;
        return { kind: 'redirect', to: pricesPath, notice, audit: { added, changed } };
      },
    ),
    post(`${path}/remove`, { access: 'admin', action: 'prices.remove' }, async (_context, form) => {
      const model = form.get('model') ?? '';
      const { removed } = await deps.importModels({ [model]: null });
      const notice = removed.length === 0 ? 'There was no imported row.' : 'The imported row is removed.';
      return { kind: 'redirect', to: modelPath(model), notice, audit: { model } };
    }),
  ];
}
