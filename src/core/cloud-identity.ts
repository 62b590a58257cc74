/**
 * The settings of a cloud identity, with which a provider gets short-lived credentials from its cloud instead of having
 * an API key.
 */
export type CloudIdentitySettings = AwsIdentitySettings | GoogleIdentitySettings | AzureIdentitySettings;

export interface AwsIdentitySettings {
  readonly type: 'aws';
  readonly region: string;
  /** A profile of the shared AWS files. Null for the default credential chain. */
  readonly profile: string | null;
  /** The role that we assume with the credentials of the chain. */
  readonly roleArn: string | null;
  readonly externalId: string | null;
  /** The name of our sessions in CloudTrail. Null for the default. */
  readonly sessionName: string | null;
  /** With `bearer` we send a token that we derive from the credentials, and with `sigv4` we sign each request. */
  readonly scheme: 'bearer' | 'sigv4';
  /** The service that we sign requests for. */
  readonly service: string;
}

export interface GoogleIdentitySettings {
  readonly type: 'google';
  readonly scopes: readonly string[];
  /** Null for the application default credentials. */
  readonly credentialsFile: string | null;
  /** The service account whose tokens we request with our own. */
  readonly impersonate: string | null;
}

export interface AzureIdentitySettings {
  readonly type: 'azure';
  readonly tenantId: string | null;
  readonly clientId: string | null;
  readonly scope: string;
}

export type CloudType = CloudIdentitySettings['type'];

/** The domains of each cloud, including its sovereign regions. Credentials only go to hosts below them. */
const cloudDomains: Readonly<Record<CloudType, readonly string[]>> = {
  aws: ['amazonaws.com', 'amazonaws.com.cn', 'amazonaws.eu', 'api.aws', 'api.amazonwebservices.com.cn', 'api.amazonwebservices.eu'],
  google: ['googleapis.com'],
  azure: ['azure.com', 'azure.us', 'azure.cn', 'windows.net', 'azure-api.net', 'azure-api.us', 'azure-api.cn'],
};

/** Reports whether a host belongs to the cloud, so that it may get the identity's credentials. */
export function isCloudHost(type: CloudType, hostname: string): boolean {
  const name = hostname.toLowerCase();
  return cloudDomains[type].some((domain) => name.endsWith(`.${domain}`));
}

/** Returns the AWS region in a host such as `bedrock-runtime.eu-west-1.amazonaws.com`, or null. */
export function findAwsRegion(hostname: string): string | null {
  return /(?:^|\.)([a-z]{2,4}(?:-[a-z]+)+-\d{1,2})\./.exec(hostname.toLowerCase())?.[1] ?? null;
}
