/** The schema for `auth`, which selects how we authenticate to a provider: with an API key or with a cloud identity. */
import { z } from 'zod';
import { setting } from './setting.ts';

const headerName = z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, 'is not a valid header name');
/** Headers that control the connection or the length of a message. The HTTP client sets them itself. */
const connectionHeaders = /^(?:connection|content-length|expect|host|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade)$/i;
export const fixedHeader = headerName.refine(
  (name) => !connectionHeaders.test(name),
  'is set by the HTTP connection and cannot be configured',
);
export const headerValue = z.string().regex(/^[\t\x20-\x7e]*$/, 'contains a character that is not allowed in headers');

const text = z.string().regex(/^\S+$/, 'must not be empty or contain spaces');
const shared = {
  allow_hosts: setting(
    z.array(z.string().regex(/^[A-Za-z0-9.-]+$/, 'must be a host without a scheme or port')),
    'Other hosts that may get the credentials, such as a private endpoint with a name of your own.',
    'none',
  ),
};

export const authSchema = z.discriminatedUnion(
  'type',
  [
    z.strictObject({
      type: setting(z.literal('key'), '`key` for an API key, or the type of a [cloud identity](cloud-identity.md).', 'an API key').meta({
        title: '`key`, `aws`, `google`, `azure`',
      }),
      header: fixedHeader.describe('For `key`: the header that contains the API key.'),
      scheme: setting(
        headerValue.min(1).nullable(),
        'The word in front of the API key, such as `Bearer`. For `aws`: `bearer` to send a token, or `sigv4` to sign each request.',
        'none, only the key is sent; for `aws` from the known vendor',
      ),
    }),
    z.strictObject({
      type: z.literal('aws').describe('An AWS identity.'),
      scheme: setting(z.enum(['bearer', 'sigv4']), 'How the gateway uses the credentials.', 'from the known vendor'),
      region: setting(
        z.string().regex(/^[a-z]{2,5}(?:-[a-z]+)+-\d{1,2}$/, 'must be a region, such as us-east-1'),
        'For `aws`: the region.',
        'the region in `base_url`',
      ),
      profile: setting(text, 'For `aws`: the profile in the shared AWS configuration files.', 'the default credential chain'),
      role_arn: setting(
        z.string().regex(/^arn:aws[\w-]*:iam::\d{12}:role\/\S+$/, 'must look like arn:aws:iam::123456789012:role/gateway'),
        'For `aws`: the role that the gateway assumes with these credentials.',
        'none',
      ),
      external_id: setting(text, 'For `aws`: the external id that the role requires.', 'none'),
      session_name: setting(
        z.string().regex(/^[\w+=,.@-]{2,64}$/, 'must consist of 2 to 64 letters, digits and the characters +=,.@-_'),
        'For `aws`: the session name that CloudTrail shows for the role.',
        'the name `model-gateway`',
      ),
      service: setting(text, 'For `aws`: the service for which requests are signed.', 'from the known vendor, else `bedrock`'),
      ...shared,
    }),
    z.strictObject({
      type: z.literal('google').describe('A Google identity.'),
      scopes: setting(
        z.array(text).min(1),
        'For `google`: the scopes of the tokens.',
        'the scope `https://www.googleapis.com/auth/cloud-platform`',
      ),
      credentials_file: setting(
        z.string().min(1),
        'For `google`: the credentials file of a service account or of workload identity federation.',
        'the application default credentials',
      ),
      impersonate: setting(
        z.email('must be the address of a service account'),
        'For `google`: the service account to impersonate.',
        'none',
      ),
      ...shared,
    }),
    z.strictObject({
      type: z.literal('azure').describe('An Azure identity.'),
      tenant_id: setting(text, 'For `azure`: the tenant of the application.', 'the variable `AZURE_TENANT_ID`'),
      client_id: setting(text, 'For `azure`: the client id of the application or managed identity.', 'the variable `AZURE_CLIENT_ID`'),
      scope: setting(
        text,
        'For `azure`: the scope of the tokens.',
        'from the known vendor, else `https://cognitiveservices.azure.com/.default`',
      ),
      ...shared,
    }),
  ],
  { error: (issue) => (issue.code === 'invalid_union' ? 'must be key, aws, google or azure' : undefined) },
);

export type AuthValues = z.infer<typeof authSchema>;
