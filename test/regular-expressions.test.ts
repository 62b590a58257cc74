import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { parseSync, Visitor } from 'oxc-parser';
import { analyse } from 'scslre';
import { root } from './support/gateway-process.ts';

/**
 * Regular expressions that can take quadratic time, by file, and why that's harmless. Callers control most texts, so an
 * expression only belongs here if its text is short.
 */
const harmless: Readonly<Record<string, readonly string[]>> = {
  // The host of a proxy from the configuration.
  'src/config/egress.ts': [String.raw`^(.*)\/(.*)$`],
  // The labels are our own.
  'src/console/frame/field-labels.ts': [' <span class="optional">.*?<\\/span>|<[^>]*>'],
  // Every attempt consumes everything up to the next comma or the end, so there is only one attempt for each entry.
  'src/console/settings/sender-list.ts': [String.raw`\s*(?:"((?:[^"]|"")*)"\s*(?=,|$)|([^,]*))(?:,|$)`],
  // The prompts of people who try out the gateway. White space is always consumed as a whole.
  'src/demo-vendor/tokens.ts': [String.raw`\s*\S+\s*|\s+`],
  // A header of a part, which the parser limits to 16 KiB. The space at the beginning is followed by anything.
  'src/dialects/media/multipart.ts': [String.raw`^([A-Za-z0-9-]+):[ \t]*(.*)$`],
  // Expressions of content rules, which have at most 500 characters.
  'src/guardrails/match-rules.ts': [
    String.raw`\\Q[\s\S]*?(?:\\E|$)|\\[pPx]\{[^}]*\}|\\[\s\S]|\[\^?\]?(?:\\[\s\S]|\[:\^?\w+:\]|[^\]\\])*\]|[\^$]`,
  ],
  // Error messages of the clouds' SDKs.
  'src/vendors/identity/describe-identity-error.ts': [String.raw`\s*(?:Headers: |Trace ID: |Browse to )`],
  // Only used for texts that consist of nothing but matches.
  'src/vendors/retry-after.ts': [String.raw`(\d+(?:\.\d+)?)(h|ms|m|s)`],
};

function expressionsIn(file: string): RegExp[] {
  const found: RegExp[] = [];
  const { program } = parseSync(file, readFileSync(join(root, file), 'utf8'));
  new Visitor({
    Literal(node) {
      if ('regex' in node) found.push(new RegExp(node.regex.pattern, node.regex.flags));
    },
  }).visit(program);
  return found;
}

const files = ['src', 'workflows', 'activities'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name)),
);

test("doesn't use regular expressions that take quadratic time for long texts", () => {
  const slow = files.flatMap((file) =>
    expressionsIn(file)
      .filter(({ source, flags }) => analyse({ source, flags }).reports.length > 0)
      .map(({ source }) => [file, source] as const),
  );
  const found = Object.fromEntries(
    Object.entries(Object.groupBy(slow, ([file]) => file)).map(([file, all = []]) => [file, all.map(([, source]) => source)]),
  );
  expect(found).toEqual(harmless);
});
