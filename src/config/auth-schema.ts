/** The schema of `auth`, and of the headers that a configuration may set. */
import { z } from 'zod';
import { setting } from './setting.ts';

const headerName = z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, 'is not a valid header name');
/** Matches framing and connection headers, because the HTTP client sets these. */
const connectionHeaders = /^(?:connection|content-length|expect|host|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade)$/i;
export const fixedHeader = headerName.refine(
  (name) => !connectionHeaders.test(name),
  'is set by the HTTP connection and cannot be configured',
);
export const headerValue = z.string().regex(/^[\t\x20-\x7e]*$/, 'contains a character that is not allowed in headers');

export const authSchema = z.strictObject({
  header: fixedHeader.describe('The header that contains the API key.'),
  scheme: setting(headerValue.min(1).nullable(), 'The word in front of the key, such as `Bearer`.', 'none, only the key is sent'),
});
