/**
 * Settings for a cloud identity. Providers with one get short-lived credentials from their cloud instead of using an
 * API key.
 */
export type CloudIdentitySettings = AwsIdentitySettings | GoogleIdentitySettings | AzureIdentitySettings;

export interface AwsIdentitySettings {
  readonly type: 'aws';
  readonly region: string;
  /** A profile in the shared AWS config files. If this is null, we use the default credential chain. */
  readonly profile: string | null;
  /** A role to assume, using the credentials of the chain. */
  readonly roleArn: string | null;
  readonly externalId: string | null;
  /** The name under which our session shows up in CloudTrail. If this is null, we use the default. */
  readonly sessionName: string | null;
  /**
   * How we authenticate requests: `bearer` sends a token derived from the credentials, and `sigv4` signs each request.
   */
  readonly scheme: 'bearer' | 'sigv4';
  /** The name of the service that goes into the signature. */
  readonly service: string;
}

export interface GoogleIdentitySettings {
  readonly type: 'google';
  readonly scopes: readonly string[];
  /** Null for the application default credentials. */
  readonly credentialsFile: string | null;
  /** The service account to impersonate. We request its tokens with our own credentials. */
  readonly impersonate: string | null;
}

export interface AzureIdentitySettings {
  readonly type: 'azure';
  readonly tenantId: string | null;
  readonly clientId: string | null;
  readonly scope: string;
}
