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

const region = '[a-z]{2,4}(?:-[a-z]+)+-\\d{1,2}';
const bedrock = `bedrock(?:-[a-z]+)*\\.${region}`;
const awsDomain =
  '(?:amazonaws\\.com|amazonaws\\.com\\.cn|amazonaws\\.eu|api\\.aws|api\\.amazonwebservices\\.com\\.cn|api\\.amazonwebservices\\.eu)';

/**
 * The hosts of each cloud's models, including its sovereign regions. Other hosts of a cloud may run the programs of its
 * customers, who must not get our credentials.
 */
const modelHosts: Readonly<Record<CloudType, RegExp>> = {
  // The second form is that of VPC endpoints, such as vpce-1a2b.bedrock-runtime.eu-west-1.vpce.amazonaws.com.
  aws: new RegExp(`^(?:${bedrock}|aws-external-anthropic\\.${region}|vpce-[a-z0-9-]+\\.${bedrock}\\.vpce)\\.${awsDomain}$`),
  google: /\.googleapis\.com$/,
  azure: /^[a-z0-9-]+\.(?:openai|cognitiveservices|services\.ai)\.azure\.(?:com|us|cn)$/,
};

/** Reports whether a host serves the cloud's models, so that it may get the identity's credentials. */
export function isCloudHost(type: CloudType, hostname: string): boolean {
  return modelHosts[type].test(hostname.toLowerCase());
}

/** Returns the AWS region in a host such as `bedrock-runtime.eu-west-1.amazonaws.com`, or null. */
export function findAwsRegion(hostname: string): string | null {
  return /(?:^|\.)([a-z]{2,4}(?:-[a-z]+)+-\d{1,2})\./.exec(hostname.toLowerCase())?.[1] ?? null;
}
