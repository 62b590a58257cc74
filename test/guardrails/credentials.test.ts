import { randomBytes } from 'node:crypto';
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { prefixed, prefixedCredential } from '../../src/guardrails/credential-kinds.ts';
import { findCredentials, maskCredentials } from '../../src/guardrails/credentials.ts';
import { generateSecret } from '../../src/keys/secret.ts';
import { isExhaustive } from '../support/exhaustive.ts';

/** Pseudo-random characters like those in issued secrets. They are the same in each run and always contain a digit. */
function drawn(length: number, alphabet = 'Zk93hTPLmXw4Rb8VnYc2Jdq7GsAf6EuKt5Bo1Wx'): string {
  return Array.from({ length }, (_, index) => alphabet[(index * 7 + (index >> 3)) % alphabet.length]).join('');
}
const hex = (length: number): string => drawn(length, '9f3a07c4e1b85d26');
const upper = (length: number): string => drawn(length, 'Q7ZK4HTPLMXW2RBVNYCJD');

const jwt = `${`eyJhbGciOiJIUzI1NiJ9`}.eyJzdWIiOiIxMjM0NTY3ODkwIn0.${drawn(43)}`;
const pem = (label: string): string => `-----BEGIN ${label}-----\n${`${drawn(64)}\n`.repeat(3)}${drawn(20)}==\n-----END ${label}-----`;

/** The kind and the secret. */
const secrets: readonly (readonly [string, string])[] = [
  ['gateway_key', generateSecret().secret],
  ['gateway_personal_token', `gwp_${drawn(40)}`],
  ['openai', `sk-${drawn(48)}`],
  ['openai', `sk-proj-${drawn(60)}_T3BlbkFJ-${drawn(60)}`],
  ['anthropic', `sk-ant-api03-${drawn(93)}AA`],
  ['openrouter', `sk-or-v1-${hex(64)}`],
  ['google_api_key', `AIzaSy${drawn(33)}`],
  ['google_oauth', `ya29.${drawn(120)}`],
  ['google_oauth', `GOCSPX-${drawn(28)}`],
  ['aws_access_key', `AKIA${upper(16).replace(/[018]/g, '2')}`],
  ['aws_access_key', 'ASIAIOSFODNN7ABCDEFG'],
  ['azure_client_secret', `abc8Q~${drawn(34)}`],
  ['github', `ghp_${drawn(36)}`],
  ['github', `gho_${drawn(36)}`],
  ['github', `github_pat_${drawn(22)}_${drawn(59)}`],
  // The keys in documentation and tests are often shorter than real ones.
  ['openai', 'sk-1234567890abcdef'],
  ['openai', 'sk-test-1234567890abcdef'],
  ['google_api_key', 'AIzaSyD-1234567890abcdefghijk'],
  ['github', 'ghp_0123456789abcdef0123'],
  ['aws_access_key', 'AKIA1234567890ABCDEF'],
  ['gitlab', `glpat-${drawn(20)}`],
  ['slack', `xoxb-123456789012-1234567890123-${drawn(24)}`],
  ['slack', `xapp-1-A012345-${hex(40)}`],
  ['webhook', `https://hooks.slack.com/services/T0001/B0001/${drawn(24)}`],
  ['stripe', `sk_live_${drawn(24)}`],
  ['stripe', `rk_test_${drawn(24)}`],
  ['twilio', `SK${hex(32)}`],
  ['sendgrid', `SG.${drawn(22)}.${drawn(43)}`],
  ['mailgun', `key-${hex(32)}`],
  ['mailchimp', `${hex(32)}-us14`],
  ['npm', `npm_${drawn(36)}`],
  ['pypi', `pypi-AgEIcHlwaS5vcmc${drawn(80)}`],
  ['rubygems', `rubygems_${hex(48)}`],
  ['docker', `dckr_pat_${drawn(27)}`],
  ['hugging_face', `hf_${drawn(34)}`],
  ['groq', `gsk_${drawn(52)}`],
  ['xai', `xai-${drawn(80)}`],
  ['perplexity', `pplx-${drawn(48)}`],
  ['replicate', `r8_${drawn(37)}`],
  ['telegram', `110201543:AAH${drawn(32)}`],
  ['discord', `MT${drawn(22)}.Gh4k2x.${drawn(38)}`],
  ['shopify', `shpat_${hex(32)}`],
  ['digitalocean', `dop_v1_${hex(64)}`],
  ['databricks', `dapi${hex(32)}`],
  ['vault', `hvs.${drawn(90)}`],
  ['atlassian', `ATATT3x${drawn(60)}`],
  ['linear', `lin_api_${drawn(40)}`],
  ['notion', `ntn_${drawn(46)}`],
  ['grafana', `glsa_${drawn(32)}_${hex(8)}`],
  ['json_web_token', jwt],
  ['private_key', pem('RSA PRIVATE KEY')],
  ['private_key', pem('PRIVATE KEY')],
  ['private_key', pem('OPENSSH PRIVATE KEY')],
  ['private_key', pem('PGP PRIVATE KEY BLOCK')],
];

const frames: readonly (readonly [string, (secret: string) => string])[] = [
  ['alone', (secret) => secret],
  ['in prose', (secret) => `My key is ${secret}, please keep it.`],
  ['in quotes', (secret) => `curl -H "x: '${secret}'"`],
  ['after an equals sign', (secret) => `export NAME=${secret}\n`],
  ['in JSON in a text', (secret) => JSON.stringify({ note: `first line\n${secret}\nnext` })],
];

test.each(secrets)('masks a credential of kind %s in every context: %.16s', (kind, secret) => {
  for (const [, frame] of frames) {
    const text = frame(secret);
    const masked = maskCredentials(text);
    expect(masked).toContain('[credential]');
    for (const line of secret.split('\n').filter((part) => part.length > 8)) expect(masked).not.toContain(line);
    expect(maskCredentials(masked)).toBe(masked);
  }
  expect(findCredentials(secret).map((found) => found.kind)).toEqual([kind]);
});

test('tests at least 25 kinds of credentials', () => {
  expect(new Set(secrets.map(([kind]) => kind)).size).toBeGreaterThanOrEqual(25);
});

test.each([
  ['postgres://gateway:s3cr3t-Pa55@db.internal:5432/app', 'postgres://gateway:[credential]@db.internal:5432/app'],
  ['https://ada:letmein@git.example/repo.git', 'https://ada:[credential]@git.example/repo.git'],
  ['redis://:hunter2hunter@cache/0', 'redis://:[credential]@cache/0'],
  ['Server=db;User Id=sa;Password=Secretly;Encrypt=true', 'Server=db;User Id=sa;Password=[credential];Encrypt=true'],
  ['host=db user=ada password=correcthorse dbname=app', 'host=db user=ada password=[credential] dbname=app'],
  [`AccountName=x;AccountKey=${drawn(86)}==;EndpointSuffix=y`, 'AccountName=x;AccountKey=[credential];EndpointSuffix=y'],
  [`https://x.blob.core.windows.net/c?sv=1&sig=${drawn(43)}%3D`, 'https://x.blob.core.windows.net/c?sv=1&sig=[credential]'],
  ['password=hunter2x', 'password=[credential]'],
  ['PGPASSWORD=s3cretly psql', 'PGPASSWORD=[credential] psql'],
  ['"db_password": "correct-horse"', '"db_password": "[credential]"'],
  [`{\\"api_key\\":\\"${drawn(20)}\\"}`, '{\\"api_key\\":\\"[credential]\\"}'],
  ['my password is hunter22, yes', 'my password is [credential], yes'],
  ['Mein Passwort lautet Sommer2026!', 'Mein Passwort lautet [credential]'],
  ['пароль: qwerty12345', 'пароль: [credential]'],
  ['密码：qwerty12345', '密码：[credential]'],
  [`aws_secret_access_key = ${drawn(40)}`, 'aws_secret_access_key = [credential]'],
  [`api-key: ${drawn(32)}`, 'api-key: [credential]'],
  [`Authorization: Bearer ${drawn(32)}`, 'Authorization: Bearer [credential]'],
  [`Authorization: Basic dXNlcjpwYXNzd29yZDEy`, 'Authorization: Basic [credential]'],
  [`client_secret=${drawn(24)}&grant_type=code`, 'client_secret=[credential]&grant_type=code'],
  ['AWS_SECRET_ACCESS_KEY: wJalrXUtnFEMI/K7MDENG/bPxRfiCYabcdefgKEY', 'AWS_SECRET_ACCESS_KEY: [credential]'],
  ['my password is Tr0ub4dor&3', 'my password is [credential]'],
  ['?password=Tr0ub4dor&user=ada', '?password=[credential]&user=ada'],
  ['"password": "correct horse battery 1", "user": "ada"', '"password": "[credential]", "user": "ada"'],
  ['{\\"passphrase\\": \\"correct horse battery 1\\", \\"n\\": 1}', '{\\"passphrase\\": \\"[credential]\\", \\"n\\": 1}'],
  ['next=%2Flogin%3Fpassword%3Dhunter22x', 'next=%2Flogin%3Fpassword%3D[credential]'],
  ['密码是hunter22x', '密码是[credential]'],
  ['パスワードはhunter22x', 'パスワードは[credential]'],
  ['curl -u admin:hunter22x https://host.example', 'curl -u admin:[credential] https://host.example'],
  ['mysql --password hunter22x main', 'mysql --password [credential] main'],
  ["vault login --auth-token 'abc123def456'", "vault login --auth-token '[credential]'"],
  [`private_key=${drawn(1_600)} end`, 'private_key=[credential] end'],
  [`token: ${drawn(70_000)}; end`, 'token: [credential]; end'],
])('masks only the secret and leaves the text around it unchanged: %s', (text, masked) => {
  expect(maskCredentials(text)).toBe(masked);
  expect(maskCredentials(masked)).toBe(masked);
});

test('masks a truncated private key up to the end of the text', () => {
  const text = `file:\n-----BEGIN RSA PRIVATE KEY-----\n${drawn(64)}\n${drawn(64)}\nand then it ends`;
  expect(maskCredentials(text)).toBe('file:\n[credential]\nand then it ends');
});

const benign = [
  'The password must have at least 12 characters and 2 digits.',
  'Password: required, 8-64 characters',
  'password: string; token: string | null; secret?: Buffer',
  'const password = readPassword(env); const token = await fetchToken2(user);',
  'const apiKey = process.env.OPENAI_API_KEY2;',
  'api_key=os.environ["KEY_1"], token=config.auth.v2.token',
  'login(username=username, password=password)',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a template before substitution
  'api_key: ${API_KEY_2}, password: <your-password-1>, token: {{ token1 }}',
  'OPENAI_API_KEY=your-api-key-here-123',
  'password: ********, secret: xxxxxxxx',
  'max_tokens: 4096, token: 123456789, tokens=50257',
  'The token limit is 128000 and the secret is patience.',
  'His secret: practice, practice, practice.',
  'docker run -u 1000:1000 image, run -u ada:staff, tool --token --verbose2 --password file',
  '"password": "", "secret": "", "text": "a password is needed in 2 places"',
  'Basic understanding of bearer authentication-mechanisms is required.',
  'See https://host:8080/packages/@scope/name and http://localhost:3000/@user',
  'mailto:ada@example.com or ssh git@github.com:acme/app.git',
  '550e8400-e29b-41d4-a716-446655440000',
  'd41d8cd98f00b204e9800998ecf8427e da39a3ee5e6b4b0d3255bfef95601890afd80709',
  'sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  '"integrity": "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=="',
  'sk-test-runner-7d9f8b6c5-x2x9k, #sk-live-dashboard-2024-overview, sk-cubegridanimation1, ACCA2024REGISTRATION',
  'class="sk-fading-circle sk-cube-grid" task-force desk-organizer risk-assessment',
  'The file begins with -----BEGIN PRIVATE KEY----- as all of them do.',
  '-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBa\n-----END CERTIFICATE-----',
  '-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----',
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk',
  '2026-11-21T10:00:00Z took 1234567890:12 ms; ratio 3:4; 10.0.0.1:8080',
  'import { secret } from "./secrets.ts"; // token = symbol',
  'npm_config_registry, hf_transfer, gsk_size, key-value, pypi-mirror, SG.1',
  'Мой пароль не помню, 密码是什么？ パスワードを忘れました。',
  'The api key is stored in the vault; the access token is refreshed hourly.',
];

test.each(benign.map((text) => [text]))('leaves ordinary text unchanged: %s', (text) => {
  expect(maskCredentials(text)).toBe(text);
});

test('finds credentials in order, and masking the text again changes nothing', () => {
  const piece = fc.oneof(
    fc.constantFrom(...secrets.map(([, secret]) => secret)),
    fc.constantFrom(...benign),
    fc.string(),
    fc.constant('\n'),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 6 }), fc.constantFrom(' ', '', '=', '"', ';'), (pieces, glue) => {
      const text = pieces.join(glue);
      let at = 0;
      for (const { start, end } of findCredentials(text)) {
        expect(start).toBeGreaterThanOrEqual(at);
        expect(end).toBeGreaterThan(start);
        at = end;
      }
      expect(at).toBeLessThanOrEqual(text.length);
      const masked = maskCredentials(text);
      expect(maskCredentials(masked)).toBe(masked);
    }),
  );
});

/** We only search words of at least 15 characters that contain a digit. */
test.each(Object.entries(prefixed))('finds a credential of kind %s between any characters', (_kind, pattern) => {
  // The expressions contain assertions about the next character, which fast-check cannot generate.
  const credential = fc.stringMatching(new RegExp(`^${pattern.replaceAll(/\(\?![^)]*\)/g, '').replaceAll(/\{(\d+),\}/g, '{$1,80}')}$`));
  const surrounding = fc.constantFrom(
    '',
    ' ',
    '\n',
    '\\n',
    '\\u0041',
    '"',
    '-',
    '_',
    'a',
    '7',
    '/',
    '.',
    '=',
    ':',
    'é',
    '是',
    '[credential]',
  );
  fc.assert(
    fc.property(surrounding, credential, surrounding, (before, secret, after) => {
      const text = before + secret + after;
      const found = findCredentials(text);
      for (const { 0: whole, index } of text.matchAll(prefixedCredential)) {
        const isFound = found.some(({ start, end }) => start <= index && end >= index + whole.length);
        expect({ text, isFound }).toEqual({ text, isFound: /\d/.test(whole) || isFound });
      }
    }),
    { numRuns: isExhaustive ? 5_000 : 30 },
  );
});

test('masks random credentials completely', () => {
  const prefixes = ['sk-ant-', 'ghp_', 'hf_', 'glpat-', 'xoxb-', 'gsk_', 'npm_'];
  fc.assert(
    fc.property(fc.constantFrom(...prefixes), fc.integer({ min: 60, max: 400 }), (prefix, length) => {
      const secret = prefix + (prefix === 'npm_' ? `${randomBytes(18).toString('hex')}` : `1${randomBytes(length).toString('hex')}`);
      expect(maskCredentials(`a ${secret} b`)).toBe('a [credential] b');
    }),
  );
});

/** These texts contain the beginnings of many credentials. A search that takes quadratic time would need hours. */
const mib = 1024 * 1024;
const longMib = isExhaustive ? 4 : 1;
test.each([
  ...['sk-', 'sk-ant-', 'AIza', 'eyJ', 'eyJ-', 'eyJabcdefghijk.', 'ghp_', 'SG.', 'xoxb-', '-----BEGIN PRIVATE KEY-----', '-----BEGIN '].map(
    (text) => [text],
  ),
  ...[
    '://',
    '://a:',
    '://a:b',
    ':',
    'password=',
    'password is ',
    'a=b password=',
    ';pwd=',
    'token:"',
    'bearer ',
    '&sig=',
    '-u a:',
    '--a-',
    '密码是',
    '\\n',
    '1',
    'a',
    'A.',
    '~',
    '\u0430',
    '=',
  ].map((text) => [text]),
])(`scans ${longMib} MiB of %j in linear time`, (unit) => {
  const text = unit.repeat(Math.ceil((longMib * mib) / unit.length));
  expect(maskCredentials(`${text} ghp_${drawn(36)}`)).toContain('[credential]');
});

test.each([
  ['passwords', `password=${'a1b2c3d4'.repeat(32)}`],
  ['keys', `sk-${'a1b2c3d4'.repeat(8_192)}/`],
])('scans 16 MiB of %s without spaces in linear time', (_what, unit) => {
  const text = unit.repeat(Math.ceil((16 * mib) / unit.length));
  expect(maskCredentials(`${text} and text`)).toMatch(/^.{0,16}\[credential\] and text$/);
});

test('also masks a credential whose name directly follows another long credential', () => {
  const value = 'a1b2c3d4'.repeat(40);
  expect(maskCredentials(`password=${value}.password = hunter2000`)).toBe('password=[credential] = [credential]');
});

test.each([
  ...['password', 'passwd', 'Passwort', 'Kennwort', 'passphrase', 'pwd', 'mot de passe', 'contraseña', 'senha', 'wachtwoord', 'hasło'],
  ...[
    'lösenord',
    'пароль',
    '密码',
    '密碼',
    'パスワード',
    '비밀번호',
    'secret',
    'token',
    'API-Key',
    'access key',
    'privatekey',
    'secret_key',
  ],
  ...['encryption_key', 'signingKey', 'account key', 'pa\u017fsword', 'TO\u212aEN'],
])('finds a secret with the name %s at any position', (name) => {
  for (const before of ['', '1', ' - ', 'no ', 'keep, '])
    for (const text of [name, name.toUpperCase()])
      expect(maskCredentials(`${before}${text}=hunter22xyz`)).toBe(`${before}${text}=[credential]`);
});

test('a credential ends at a control character', () => {
  expect(maskCredentials('AWS_SECRET_ACCESS_KEY=A7gQXLh2HdVugxvEWeq3vEzN\u0001(x)')).toBe('AWS_SECRET_ACCESS_KEY=[credential]\u0001(x)');
  const github = `ghp_${'a1B2'.repeat(9)}`;
  for (const before of ['\\u0001', '\\b', '\\f', '\\n'])
    expect(maskCredentials(`{"x":"${before}${github}"}`)).toBe(`{"x":"${before}[credential]"}`);
});
