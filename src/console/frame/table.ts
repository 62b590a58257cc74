/** Renders tables. On narrow screens, each row becomes a card with labelled values. */
import { type Html, html } from './html.ts';

export interface Column<Row> {
  readonly label: string;
  readonly value: (row: Row) => Html | string | number | null;
  readonly align?: 'end';
  /** Leaves the column out on phones. */
  readonly wideOnly?: boolean;
  /** Gives the column all remaining width and wraps its texts. */
  readonly grow?: boolean;
}

export interface TableOptions<Row> {
  /** Says what the table contains. Only screen readers get it, unless `showCaption` is set. */
  readonly caption: string;
  readonly showCaption?: boolean;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  /** Shown if there are no rows. Should explain what would be listed and how it gets there. */
  readonly empty?: Html | string;
  /** Turns the first cell into a link that covers the row. Undefined for rows without a link. */
  readonly rowHref?: (row: Row) => string | undefined;
  readonly footer?: readonly (Html | string | number | null)[];
}

export function table<Row>({ caption, showCaption = false, columns, rows, empty = '', rowHref, footer }: TableOptions<Row>): Html {
  if (rows.length === 0) return emptyState(showCaption ? caption : null, empty);
  return html`<div class="table-frame"><table>
<caption${showCaption ? '' : html` class="hidden"`}>${caption}</caption>
<thead><tr>${columns.map((column) => html`<th scope="col"${classOf(column)}>${column.label}</th>`)}</tr></thead>
<tbody>${rows.map((row) => renderRow(row, columns, rowHref?.(row)))}</tbody>
${footer && html`<tfoot><tr>${footer.map((cell, index) => html`<td${classOf(columns[index])} data-label="${columns[index]?.label ?? ''}"><div>${cell}</div></td>`)}</tr></tfoot>`}
</table></div>`;
}

function renderRow<Row>(row: Row, columns: readonly Column<Row>[], href: string | undefined): Html {
  const cells = columns.map((column, index) => {
    const value = column.value(row);
    const content = index === 0 && href !== undefined ? html`<a class="row-link" href="${href}">${value}</a>` : value;
    return html`<td${classOf(column)} data-label="${column.label}"><div>${content}</div></td>`;
  });
  return html`<tr${href === undefined ? '' : html` class="linked"`}>${cells}</tr>`;
}

function classOf(column: Pick<Column<never>, 'align' | 'wideOnly' | 'grow'> | undefined): Html | string {
  const names = [column?.align === 'end' && 'end', column?.wideOnly && 'wide-only', column?.grow && 'grow'].filter(Boolean);
  return names.length === 0 ? '' : html` class="${names.join(' ')}"`;
}

export function emptyState(title: string | null, text: Html | string, action?: Html): Html {
  return html`<div class="empty">${title === null ? '' : html`<p class="empty-title">${title}</p>`}<p>${text}</p>${action}</div>`;
}
