import type { CloudIdentitySettings } from '../../core/cloud-identity.ts';

type CloudType = CloudIdentitySettings['type'];

const region = '[a-z]{2,4}(?:-[a-z]+)+-\\d{1,2}';
const bedrock = `bedrock(?:-[a-z]+)*\\.${region}`;
const awsDomain =
  '(?:amazonaws\\.com|amazonaws\\.com\\.cn|amazonaws\\.eu|api\\.aws|api\\.amazonwebservices\\.com\\.cn|api\\.amazonwebservices\\.eu)';

/**
 * The hosts that serve each cloud's models, including sovereign regions. Other hosts in a cloud's domain may belong to
 * customers of that cloud, so credentials are never sent there.
 */
const modelHosts: Readonly<Record<CloudType, RegExp>> = {
  // The alternative with `vpce-` is for VPC endpoints, e.g. vpce-1a2b.bedrock-runtime.eu-west-1.vpce.amazonaws.com.
  aws: new RegExp(`^(?:${bedrock}|aws-external-anthropic\\.${region}|vpce-[a-z0-9-]+\\.${bedrock}\\.vpce)\\.${awsDomain}$`),
  google: /\.googleapis\.com$/,
  azure: /^[a-z0-9-]+\.(?:openai|cognitiveservices|services\.ai)\.azure\.(?:com|us|cn)$/,
};

/**
 * Checks whether the cloud serves models on this host. Credentials of a cloud identity are never sent to any other
 * host.
 */
export function isCloudHost(type: CloudType, hostname: string): boolean {
  return modelHosts[type].test(hostname.toLowerCase());
}

/** Finds the AWS region in a host such as `bedrock-runtime.eu-west-1.amazonaws.com`. */
export function findAwsRegion(hostname: string): string | null {
  return /(?:^|\.)([a-z]{2,4}(?:-[a-z]+)+-\d{1,2})\./.exec(hostname.toLowerCase())?.[1] ?? null;
}
