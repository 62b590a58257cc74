/** Templates of the console: `html` escapes every value; only `raw` inserts markup, and only constants may be given to it. */
import type { HtmlEscapedString } from 'hono/utils/html';

export { html, raw } from 'hono/html';

/** Escaped markup, as `html` returns it. */
export type Html = HtmlEscapedString | Promise<HtmlEscapedString>;
