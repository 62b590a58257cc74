/** The schema of `auth`, which says how a provider proves who we are: by an API key or by a cloud identity. */
import { z } from 'zod';
import { setting } from './setting.ts';

const headerName = z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, 'is not a valid header name');
/** Matches framing and connection headers, because the HTTP client sets these. */
const connectionHeaders = /^(?:connection|content-length|expect|host|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade)$/i;
export const fixedHeader = headerName.refine((name) => !connectionHeaders.test(name), 'this header is set by the HTTP connection');
export const headerValue = z.string().regex(/^[\t\x20-\x7e]*$/, 'contains a character that is not allowed in headers');

const text = z.string().regex(/^\S+$/, 'must not be empty or contain spaces');
const shared = {
  allow_hosts: setting(
    z.array(z.string().regex(/^[A-Za-z0-9.-]+$/, 'must be a host, without a scheme and port')),
    'hosts outside of the cloud that may get its credentials, such as a private endpoint with a name of your own',
    'none',
  ),
};

export const authSchema = z.discriminatedUnion(
  'type',
  [
    z.strictObject({
      type: setting(
        z.literal('key'),
        '`key` for an API key, or a [cloud identity](cloud-identity.md): `aws`, `google` or `azure`',
        'an API key',
      ).meta({ title: '`key`, `aws`, `google`, `azure`' }),
      header: fixedHeader.describe('`key`: header of the API key'),
      scheme: setting(
        headerValue.min(1).nullable(),
        'what precedes the API key, such as `Bearer`; with `aws`, `bearer` to send a token or `sigv4` to sign each request',
        "the bare key; with `aws` the vendor's",
      ),
    }),
    z.strictObject({
      type: z.literal('aws').describe('an AWS identity'),
      scheme: setting(z.enum(['bearer', 'sigv4']), 'how the credentials are used', "the vendor's"),
      region: setting(
        z.string().regex(/^[a-z]{2,5}(?:-[a-z]+)+-\d{1,2}$/, 'must be a region, such as us-east-1'),
        '`aws`: region',
        'that of `base_url`',
      ),
      profile: setting(text, '`aws`: profile of the shared files of AWS', 'the default chain of AWS'),
      role_arn: setting(
        z.string().regex(/^arn:aws[\w-]*:iam::\d{12}:role\/\S+$/, 'must be like arn:aws:iam::123456789012:role/gateway'),
        '`aws`: role that is assumed with these credentials',
        'none',
      ),
      external_id: setting(text, '`aws`: external id that the role asks for', 'none'),
      session_name: setting(
        z.string().regex(/^[\w+=,.@-]{2,64}$/, 'must have 2 to 64 letters, digits or +=,.@-_'),
        '`aws`: name of the sessions of roles in CloudTrail',
        'the name `model-gateway`',
      ),
      service: setting(text, '`aws`: service that requests are signed for', "the vendor's, else `bedrock`"),
      ...shared,
    }),
    z.strictObject({
      type: z.literal('google').describe('a Google identity'),
      scopes: setting(z.array(text).min(1), '`google`: scopes of the tokens', 'the scope `https://www.googleapis.com/auth/cloud-platform`'),
      credentials_file: setting(
        z.string().min(1),
        '`google`: file of a service account or of workload identity federation',
        'the application default credentials',
      ),
      impersonate: setting(z.email('must be the address of a service account'), '`google`: service account that is impersonated', 'none'),
      ...shared,
    }),
    z.strictObject({
      type: z.literal('azure').describe('an Azure identity'),
      tenant_id: setting(text, '`azure`: tenant of the application', 'the variable `AZURE_TENANT_ID`'),
      client_id: setting(text, '`azure`: client id of the application or managed identity', 'the variable `AZURE_CLIENT_ID`'),
      scope: setting(text, '`azure`: scope of the tokens', "the vendor's, else `https://cognitiveservices.azure.com/.default`"),
      ...shared,
    }),
  ],
  { error: (issue) => (issue.code === 'invalid_union' ? 'must be key, aws, google or azure' : undefined) },
);

export type AuthValues = z.infer<typeof authSchema>;
