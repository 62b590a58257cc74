/**
 * The console's HTML templates. `html` escapes every value. `raw` doesn't escape anything, so only pass constants to
 * it.
 */
import type { HtmlEscapedString } from 'hono/utils/html';

export { html, raw } from 'hono/html';

export type Html = HtmlEscapedString | Promise<HtmlEscapedString>;
