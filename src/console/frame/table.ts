/** Tables of the console. On narrow screens each row becomes a card with labelled values. */
import { type Html, html } from './html.ts';

export interface Column<Row> {
  readonly label: string;
  readonly value: (row: Row) => Html | string | number | null;
  /** `end` for figures. */
  readonly align?: 'end';
  /** Left out on phones. */
  readonly wideOnly?: boolean;
  /** Long text: wraps, and takes the remaining width. */
  readonly grow?: boolean;
}

export interface TableOptions<Row> {
  /** Says what the table holds; shown unless `hideCaption`. */
  readonly caption: string;
  readonly hideCaption?: boolean;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  /** Shown in place of an empty table: what would be here, and how it gets here. */
  readonly empty: Html | string;
  /** Makes the first cell a link and the whole row clickable. */
  readonly rowHref?: (row: Row) => string;
  /** Cells of a last row with totals. */
  readonly footer?: readonly (Html | string | number | null)[];
}

export function table<Row>({ caption, hideCaption = false, columns, rows, empty, rowHref, footer }: TableOptions<Row>): Html {
  if (rows.length === 0) return emptyState(hideCaption ? null : caption, empty);
  return html`<div class="table-frame"><table>
<caption${hideCaption ? html` class="hidden"` : ''}>${caption}</caption>
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

/** What to show where there is nothing yet. */
export function emptyState(title: string | null, text: Html | string, action?: Html): Html {
  return html`<div class="empty">${title === null ? '' : html`<p class="empty-title">${title}</p>`}<p>${text}</p>${action}</div>`;
}
