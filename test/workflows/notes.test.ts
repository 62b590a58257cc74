import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { describeRun } from '../../src/temporal/client/describe-run.ts';
import { workflowNames } from '../../workflows/contract.ts';
import { isNote, type NoteName, note, templates, toMarkdown } from '../../workflows/notes.ts';

const planted = 'the patient said she is pregnant';
const id = '0198c5f2-7d2e-7000-8000-00000000000a';

/** A value for each kind of slot. */
const samples: Readonly<Record<string, string>> = {
  count: '3',
  id,
  slug: 'acme-support',
  code: 'no_route',
  time: '2026-11-20 14:05 UTC',
  step: 'learn',
  task: 'expired videos',
};

/** Returns the template with its slots filled. */
function fill(name: NoteName, values = samples): string {
  const slots = [...templates[name].matchAll(/\{(\w+)\}/g)].map(([, slot]) => values[slot ?? ''] ?? '');
  return (note as (name: NoteName, ...values: string[]) => string)(name, ...slots);
}

describe('notes for operators in the Temporal UI', () => {
  test.each(Object.keys(templates) as NoteName[])('recognizes the note %s but no other text', (name) => {
    const text = fill(name);
    expect(text).not.toMatch(/[{?}]/);
    expect(isNote(text)).toBe(true);
    expect(isNote(`${text}\n${text}`)).toBe(true);
    expect(isNote(toMarkdown([text, '- Opening: 1', '- Opening: 2', text]))).toBe(true);
    for (const changed of [`${text} ${planted}`, `${planted} ${text}`, `${text}\n${planted}`, `${text}\n`])
      expect(isNote(changed)).toBe(false);
  });

  test("shows a question mark in a note for a value that isn't allowed there", () => {
    expect(note('call', planted)).toBe('- Call: ?');
    expect(note('cleanupStep', `expired videos ${planted}`)).toBe('cleanup: ?');
    expect(note('conversationIdle', '')).toBe('?: close a conversation when it is idle');
    expect(isNote(note('call', planted))).toBe(true);
  });

  test("never shows callers' text in a note", () => {
    fc.assert(
      fc.property(fc.constantFrom(...(Object.keys(templates) as NoteName[])), fc.string(), (name, text) => {
        const filled = fill(name, Object.fromEntries(Object.keys(samples).map((slot) => [slot, `${text} ${planted}`])));
        expect(filled).not.toContain('patient');
        expect(isNote(filled)).toBe(true);
      }),
    );
  });

  test('uses only notes to describe Temporal runs', () => {
    const input = { conversation_id: id, opened: 2, batch_id: id, project_id: id, run: 4, erasure_id: id, call_id: id, step: null };
    for (const workflow of workflowNames) {
      const entry = { workflow, workflowId: `learning/${id}`, projectId: id, projectSlug: 'acme-support', input };
      const { staticSummary, staticDetails, memo } = describeRun(workflow, entry);
      for (const text of [staticSummary, staticDetails, memo.summary]) {
        expect(isNote(text)).toBe(true);
        expect(text).not.toContain('?');
      }
      expect(isNote(describeRun(workflow, { ...entry, projectSlug: null, input: {} }).staticSummary)).toBe(true);
    }
  });
});
