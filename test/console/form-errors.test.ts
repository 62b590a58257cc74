/**
 * Sends bad values in each field of each form, and checks that the errors name the fields by their labels and are shown
 * at the fields.
 */
import { beforeAll, expect, test } from '@jest/globals';
import { describeField } from '../../src/console/frame/field-labels.ts';
import { type PlantedProject, pagesOf, plantProject } from '../support/console-pages.ts';
import { shareGateway } from '../support/gateway.ts';
import { decodeEntities } from '../support/page-text.ts';

const gateway = shareGateway({ database: 'any' });
let planted: PlantedProject;
let forms: readonly Form[] = [];

interface Form {
  readonly page: string;
  readonly action: string;
  /** The form as it's filled in when the page is opened. */
  readonly values: Readonly<Record<string, string>>;
  /** The fields in which people can type or choose something. */
  readonly fields: readonly string[];
  /** Labels by the name of their field. */
  readonly labels: ReadonlyMap<string, string>;
}

beforeAll(async () => {
  planted = await plantProject(gateway(), ['Prefers tea', 'Orders on Fridays']);
  const found = (await Promise.all(pagesOf(planted).map(openForms))).flat().filter(({ fields }) => fields.length > 0);
  // Forms in the list of members or keys are the same for each row.
  forms = [...new Map(found.map((form) => [`${form.action} ${form.fields}`, form])).values()];
});

async function openForms(page: string): Promise<Form[]> {
  const html = await (await planted.admin.get(page)).text();
  return [...html.matchAll(/<form class="[^"]*" method="post" action="([^"]*)"[^>]*>(.*?)<\/form>/gs)].map(
    ([, action = '', content = '']) => {
      const values: Record<string, string> = {};
      const fields = new Set<string>();
      for (const [element] of content.matchAll(/<input[^>]*>|<(select|textarea).*?<\/\1>/gs)) {
        const [tag = '', kind = ''] = /^<(\w+)[^>]*>/.exec(element) ?? [];
        const attribute = (name: string): string => new RegExp(` ${name}="([^"]*)"`).exec(tag)?.[1] ?? '';
        const [name, type] = [attribute('name'), attribute('type') || kind];
        if (name === '' || (type === 'checkbox' && !tag.includes(' checked'))) continue;
        const [, chosen] = /<option value="([^"]*)" selected/.exec(element) ?? /<option value="([^"]*)"/.exec(element) ?? [];
        const text = kind === 'textarea' ? element.replaceAll(/<[^>]*>\n?/g, '') : (chosen ?? attribute('value'));
        values[name] = decodeEntities(text);
        if (type !== 'hidden' && type !== 'checkbox') fields.add(name);
      }
      const { csrf: _, ...others } = values;
      const labels = new Map(labelsOf(content).map(({ field, text }) => [field, text]));
      return { page, action: decodeEntities(action), values: others, fields: [...fields], labels };
    },
  );
}

interface Label {
  /** The name of the field, or of the group of fields. */
  readonly field: string;
  readonly text: string;
  readonly hasError: boolean;
}

/** Returns the labels of fields and groups, and whether an error is shown at each of them. */
function labelsOf(page: string): Label[] {
  const fields = Array.from(page.matchAll(/<label for="field-([^"]*)">(.*?)<\/label>/gs), ([, field = '', label]) => {
    return { field, text: toText(label), hasError: page.includes(`<p class="error" id="field-${field}-error"`) };
  });
  const groups = page.matchAll(/<(?:legend|summary) data-field="([^"]*)">(.*?)<\/(?:legend|summary)>(.*?)<\/fieldset>/gs);
  return [
    ...fields,
    ...Array.from(groups, ([, field = '', label, content = '']) => {
      return { field, text: toText(label), hasError: content.includes('<p class="error"') };
    }),
  ];
}

function toText(html = ''): string {
  return decodeEntities(html.replaceAll(/ <span class="optional">.*?<\/span>|<[^>]*>/g, ''));
}

interface Refusal {
  readonly field: string;
  readonly status: number;
  readonly message: string;
  readonly labels: readonly Label[];
}

/** Returns null if the form was accepted. */
async function submit({ action, values }: Form, field: string, value: string): Promise<Refusal | null> {
  const response = await planted.admin.post(action, { ...values, [field]: value });
  const page = await response.text();
  const [, message] = /<div class="(?:notice bad|empty)"[^>]*><p>(.*?)<\/p>/s.exec(page) ?? [];
  return response.status < 400 ? null : { field, status: response.status, message: toText(message), labels: labelsOf(page) };
}

test('refuses NUL characters in every field of every form', async () => {
  const accepted: string[] = [];
  for (const form of forms)
    for (const field of form.fields) {
      const refusal = await submit(form, field, 'a\0b');
      if (!refusal?.message.includes('must not contain U+0000')) accepted.push(`${form.action} ${field}: ${refusal?.message}`);
    }
  expect(accepted).toEqual([]);
  expect(forms.length).toBeGreaterThan(20);
});

test('refuses control characters in every name field', async () => {
  const tried = new Set<string>();
  const accepted: string[] = [];
  for (const form of forms)
    for (const field of form.fields.filter((name) => ['name', 'email'].includes(name))) {
      const refusal = await submit(form, field, 'a\u0085b');
      if (!/must not contain control|must be an e-mail/.test(refusal?.message ?? ''))
        accepted.push(`${form.action} ${field}: ${refusal?.message}`);
      tried.add(`${form.action.replace(/\/keys\/.*\//, '/keys/:key/')} ${field}`);
    }
  expect(accepted).toEqual([]);
  expect([...tried]).toEqual(
    expect.arrayContaining([
      ...['/console/p/acme/keys name', '/console/p/acme/keys/:key/edit name', '/console/p/acme/project/edit name'],
      '/console/p/acme/members name',
      ...['/console/admin/projects name', '/console/admin/people name', '/console/account/name name', '/console/account/tokens name'],
    ]),
  );
});

test("shows each error next to its field and uses the field's label in the message", async () => {
  const raw: string[] = [];
  const unmarked: string[] = [];
  const ofWholeForm = new Set<string>();
  const named = new Set<string>();
  for (const opened of forms) {
    let form: Form | undefined = opened;
    for (const field of opened.fields)
      for (const value of ['', 'x'.repeat(5_000), '\u0001', '-1']) {
        if (!form) continue;
        const refusal = await submit(form, field, value);
        if (refusal === null) {
          // The settings have changed, or the form is gone.
          form = (await openForms(form.page)).find(({ action }) => action === opened.action);
          continue;
        }
        const { status, message, labels } = refusal;
        expect([form.action, field, status < 500]).toEqual([form.action, field, true]);
        const prefixes = Array.from(message.matchAll(/(?:^|; )([^;:]+): /g), ([, prefix = '']) => prefix);
        const isAtField = labels.some((label) => label.field === field && label.hasError);
        if (prefixes.length === 0 && !isAtField) ofWholeForm.add(message || `${form.action} ${field}: status ${status}`);
        for (const prefix of prefixes) {
          named.add(prefix);
          if (prefix.startsWith('Nothing was saved')) continue;
          const found = labels.filter(({ text }) => text === prefix || text === prefix.replace(/ \(.*\)$/, ''));
          if (found.length === 0) raw.push(`${form.action} ${field}: ${message}`);
          // With status 422, the form is shown again.
          else if (status === 422 && !found.some(({ hasError }) => hasError)) unmarked.push(`${form.action} ${field}: ${message}`);
        }
      }
  }
  expect(raw).toEqual([]);
  expect(unmarked).toEqual([]);
  // All other errors belong to a field and have to name it, or be shown at it.
  const expected = /^Type .* to confirm|^Nothing (?:has changed|was saved) yet|^The key is revoked/;
  expect([...ofWholeForm].filter((message) => !expected.test(message))).toEqual([]);
  expect([...named]).toEqual(
    expect.arrayContaining(['Name', 'Calls per minute', 'Expires (UTC)', 'Only these senders (entry 1)', 'Application']),
  );
});

test("uses the same field labels on pages that don't contain the form", async () => {
  // Forms with passwords, confirmations and the checkboxes of lists don't appear on other pages, and tiers do by name.
  const isSkipped = (name: string): boolean => /^(?:password|current|repeated|revoke_tokens|confirmation)$|-|\.\d+\./.test(name);
  const plain = (label: string): string => label.replace(/ \(.*\)$/, '').toLowerCase();
  const different = forms.flatMap(({ labels }) =>
    Array.from(labels).flatMap(([name, text]) => {
      const [label, described] = [plain(text), plain(describeField(name))];
      return isSkipped(name) || label.includes(described) || (label !== '' && described.includes(label))
        ? []
        : [`${name}: ${label}, ${described}`];
    }),
  );
  // The form for rules calls this field "In", which isn't clear without the form.
  expect([...new Set(different)]).toEqual(['place: in, place']);
  expect(describeField('providers.0')).toBe('Providers, entry 1');
  expect(describeField('tiers.standard.0')).toBe('Tiers for text (standard, entry 1)');
});
