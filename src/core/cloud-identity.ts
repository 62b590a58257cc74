/**
 * The cloud identity of a provider. We get short-lived credentials from the cloud instead of using an API key.
 */
export type CloudIdentitySettings = AwsIdentitySettings | GoogleIdentitySettings | AzureIdentitySettings;

export interface AwsIdentitySettings {
  readonly type: 'aws';
  readonly region: string;
  /** A profile in the shared AWS config files. If this is null, we use the default credential chain. */
  readonly profile: string | null;
  /** The role to assume, or null to use the credentials directly. */
  readonly roleArn: string | null;
  readonly externalId: string | null;
  /** The session name in CloudTrail. Null for the default. */
  readonly sessionName: string | null;
  /**
   * How we authenticate requests. `bearer` sends a token that we derive from the credentials, and `sigv4` signs each
   * request.
   */
  readonly scheme: 'bearer' | 'sigv4';
  /** The service name that we put into the signature. */
  readonly service: string;
}

export interface GoogleIdentitySettings {
  readonly type: 'google';
  readonly scopes: readonly string[];
  /** A credentials file. Null for the application default credentials. */
  readonly credentialsFile: string | null;
  /** A service account to impersonate. We request its tokens with our own credentials. */
  readonly impersonate: string | null;
}

export interface AzureIdentitySettings {
  readonly type: 'azure';
  readonly tenantId: string | null;
  readonly clientId: string | null;
  readonly scope: string;
}
