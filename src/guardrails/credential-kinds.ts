/**
 * Defines the credentials that we recognize by their format, i.e. by the issuer's prefix and the random characters
 * after it. The patterns come from the issuers' documentation and from public secret scanners.
 *
 * Each kind is a line in the table. All patterns have to take linear time, so there are two rules. A match can't start
 * inside a run of characters that an earlier attempt has scanned (`atStart`), and after an unbounded run there can only
 * be a single character, which isn't part of the run.
 */

export interface Credential {
  readonly kind: string;
  /** The position of the secret itself, after any name or URL in front of it. */
  readonly start: number;
  readonly end: number;
}

/**
 * Patterns of credentials with a known prefix. They're compiled into one expression, which only matches at the start of
 * a word.
 */
export const prefixed: Readonly<Record<string, string>> = {
  // The gateway's own keys. We ignore the checksum, because even a mistyped key reveals most of the real one.
  gateway_key: 'sk-gw-[a-z0-9]{8}-[0-9A-Za-z]{20,}',
  gateway_personal_token: 'gwp_[\\w-]{16,}',
  anthropic: 'sk-ant-[\\w-]{20,}',
  openai: 'sk-(?:(?:proj|svcacct|admin|service|None)-[\\w-]{20,}|[A-Za-z0-9]{20,}|(?:test-|live-)?(?:[A-Za-z]{0,16}\\d){4}[A-Za-z0-9]{8,})',
  openrouter: 'sk-or-[\\w-]{20,}',
  langfuse: 'sk-lf-[0-9a-f-]{36}',
  google_api_key: 'AIza[\\w-]{20,}',
  google_oauth: '(?:ya29\\.[\\w-]{20,}|GOCSPX-[\\w-]{20,}|1\\/\\/0[\\w-]{30,})',
  gemini: 'AQ\\.Ab[\\w-]{30,}',
  aws_access_key: '(?:AKIA[A-Z0-9]{16}|(?:ASIA|ABIA|ACCA)[A-Z2-7]{16})(?![A-Za-z0-9])',
  aws_bedrock: 'ABSK[A-Za-z0-9+/]{60,}={0,2}',
  github: '(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\\w{40,})',
  gitlab: '(?:gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|oas|ffct)-|GR1348941)[\\w-]{20,}',
  bitbucket: 'AT(?:BB|CTT3)[\\w=-]{24,}',
  atlassian: 'ATATT3[\\w=-]{50,}',
  slack: '(?:xox[abceoprsd]|xoxe\\.xox[bp]|xapp)-[A-Za-z0-9-]{10,}',
  stripe: '(?:(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{24,})',
  twilio: 'SK[0-9a-f]{32}(?![A-Za-z0-9])',
  sendgrid: 'SG\\.[\\w-]{16,64}\\.[\\w-]{16,}',
  mailgun: 'key-[0-9a-f]{32}(?![A-Za-z0-9])',
  mailchimp: '[0-9a-f]{32}-us\\d{1,2}(?![A-Za-z0-9])',
  npm: 'npm_[A-Za-z0-9]{36}',
  pypi: 'pypi-Ag[\\w-]{40,}',
  rubygems: 'rubygems_[0-9a-f]{48}',
  crates: 'cio[A-Za-z0-9]{32}(?![A-Za-z0-9])',
  docker: 'dckr_(?:pat|oat)_[\\w-]{20,}',
  hugging_face: 'hf_[A-Za-z0-9]{30,}',
  groq: 'gsk_[A-Za-z0-9]{32,}',
  xai: 'xai-[A-Za-z0-9]{40,}',
  perplexity: 'pplx-[A-Za-z0-9]{32,}',
  replicate: 'r8_[A-Za-z0-9]{32,}',
  pinecone: 'pcsk_[\\w-]{30,}',
  tavily: 'tvly-[\\w-]{20,}',
  langsmith: 'lsv2_(?:pt|sk)_[0-9a-f_]{32,}',
  telegram: '\\d{8,10}:[\\w-]{35}(?![\\w-])',
  discord: '[MNO][A-Za-z0-9]{23,27}\\.[\\w-]{6}\\.[\\w-]{27,}',
  shopify: 'shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}',
  square: 'sq0(?:atp|csp)-[\\w-]{22,}',
  digitalocean: 'do[opr]_v1_[0-9a-f]{64}',
  databricks: 'dapi[0-9a-f]{32}(?:-\\d)?(?![A-Za-z0-9])',
  vault: 'hv[sbr]\\.[\\w-]{24,}',
  terraform: '[A-Za-z0-9]{14}\\.atlasv1\\.[\\w-]{60,}',
  doppler: 'dp\\.(?:pt|st|ct|sa|scim|audit)\\.[\\w.-]{40,}',
  grafana: '(?:glsa_[\\w-]{32,}|glc_[A-Za-z0-9+/=]{32,})',
  new_relic: 'NRAK-[A-Z0-9]{27}',
  sentry: 'sntry[su]_[\\w+/=-]{40,}',
  postman: 'PMAK-[0-9a-f]{24}-[0-9a-f]{34}',
  linear: 'lin_(?:api|oauth)_[A-Za-z0-9]{32,}',
  notion: '(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43})(?![A-Za-z0-9])',
  airtable: 'pat[A-Za-z0-9]{14}\\.[0-9a-f]{64}',
  figma: 'figd_[\\w-]{40,}',
  supabase: '(?:sbp_[0-9a-f]{40}|sb_secret_[\\w-]{20,})',
  planetscale: 'pscale_(?:tkn|pw|oauth)_[\\w.=-]{32,}',
  tailscale: 'tskey-[a-z]{2,16}-[\\w-]{20,}',
  facebook: 'EAA[A-Za-z0-9]{80,}',
  azure_client_secret: '[\\w~.]{3}\\dQ~[\\w~.-]{31,34}',
  azure_ai: '[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{26}',
  age: 'AGE-SECRET-KEY-1[0-9A-Z]{58}',
  json_web_token: 'eyJ[\\w-]{10,}\\.[\\w-]{10,}\\.[\\w-]{10,}(?:\\.[\\w-]{1,})?(?:\\.[\\w-]{1,})?',
};

/**
 * The maximum length of a repetition. The regex engine keeps a backtracking entry for each character of an unbounded
 * run, and throws when its stack is full, e.g. for megabytes of text without a space. `credentials.ts` finds the end of
 * longer credentials.
 */
export const maxRunLength = 65_536;

export function boundRuns(pattern: string): string {
  return pattern.replaceAll(/\{(\d+),\}/g, `{$1,${maxRunLength}}`);
}

/** Matches the start of a word, also after an escape such as `\n` in a JSON string. */
const atStart = '(?:(?<![\\w-])|(?<=\\\\[bfnrt])|(?<=\\\\u[0-9a-fA-F]{4}))';

export const prefixedCredential = new RegExp(
  `${atStart}(?:${Object.entries(prefixed)
    .map(([kind, pattern]) => `(?<${kind}>${boundRuns(pattern)})`)
    .join('|')})`,
  'g',
);

/** Matches webhook URLs. Anyone who knows such a URL can use the webhook. */
export const secretAddress = new RegExp(
  boundRuns('https://(?:hooks\\.slack\\.com/(?:services|workflows|triggers)|discord(?:app)?\\.com/api/webhooks)/[\\w/-]{20,}'),
  'g',
);
