/**
 * Reads the data set of `npm run evaluate-learning`, which consists of short conversations with statements that should
 * or shouldn't be learned. Each file in `scripts/learning-set` is a category.
 */
import { readdir, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { findNumbers } from '../../src/memory/learning/numbers.ts';
import { itemKinds } from '../../src/memory/records/item-record.ts';
import { root } from '../launch.js';

const pattern = z.string().refine(isPattern, 'not a regular expression').transform(toPattern);
const day = z.iso.date();
const defaultSubject = 'account-1';

/**
 * A message. Its `date` also applies to the messages that follow. Tool results are stored with the assistant's message
 * before them.
 */
const message = z
  .strictObject({ user: z.string(), date: day.optional() })
  .or(z.strictObject({ assistant: z.string() }))
  .or(z.strictObject({ tool: z.string() }));

/** A statement that the scripted model returns. If we expect the service to refuse it, `refused` is the reason. */
const scripted = z.strictObject({
  text: z.string(),
  evidence: z.string(),
  names: z.array(z.string()),
  numbers: z.array(z.string()).default([]),
  dates: z.array(z.strictObject({ said: z.string(), offset: z.string() })).default([]),
  kind: z.enum(itemKinds).default('fact'),
  refused: z.enum(['evidence', 'quotation', 'content', 'names', 'numbers', 'injection']).optional(),
});

/**
 * Conversations of a case are learned one after the other, each in its own batch. By default they happen on 2026-11-20,
 * a Friday.
 */
const conversation = z.strictObject({
  subject: z.string().default(defaultSubject),
  date: day.default('2026-11-20'),
  messages: z.array(message).min(2),
  scripted: z.array(scripted),
});

/** Requires a memory that matches all of these patterns (ignoring case) and has this kind, subject and date. */
const expectation = z.strictObject({
  all: z.array(pattern).min(1),
  kind: z.enum(itemKinds).optional(),
  subject: z.string().optional(),
  date: day.optional(),
});

/** Forbids memories that match. If there's a subject, this only applies to memories about that subject. */
const exclusion = pattern.transform((text) => ({ pattern: text, subject: null })).or(z.strictObject({ pattern, subject: z.string() }));

const learningCase = z.strictObject({
  id: z.string().regex(/^[a-z0-9-]+$/),
  conversations: z.array(conversation).min(1),
  must: z.array(expectation).default([]),
  must_not: z.array(exclusion).default([]),
});

/** @typedef {z.infer<typeof learningCase> & { category: string }} LearningCase */
/** @typedef {z.infer<typeof conversation>} LearningConversation */
/** @typedef {z.infer<typeof scripted>} ScriptedStatement */
/** @typedef {{ text: string, kind: string, subject: string | null }} LearnedItem */
/** @typedef {{ missed: string[], forbidden: string[] }} Judgement */

/**
 * Reads all cases. Throws if a file is invalid or two cases have the same id.
 * @returns {Promise<LearningCase[]>}
 */
export async function loadLearningSet(folder = join(root, 'scripts', 'learning-set')) {
  /** @type {LearningCase[]} */
  const cases = [];
  for (const name of (await readdir(folder)).sort()) {
    const parsed = z.array(learningCase).safeParse(parse(await readFile(join(folder, name), 'utf8')));
    if (!parsed.success) throw new Error(`${name}: ${z.prettifyError(parsed.error)}`);
    cases.push(...parsed.data.map((each) => ({ ...each, category: basename(name, '.yaml') })));
  }
  const twice = cases.find(({ id }, index) => cases.findIndex((other) => other.id === id) !== index);
  if (twice) throw new Error(`${twice.category}: the id ${twice.id} is used more than once`);
  return cases;
}

/**
 * @param {LearningCase} learned
 * @param {readonly LearnedItem[]} items
 * @returns {Judgement} expectations that no memory meets, and memories that shouldn't have been learned
 */
export function judge({ must, must_not }, items) {
  const missed = must.filter(
    ({ all, kind, subject, date }) =>
      !items.some(
        (item) =>
          all.every((each) => each.test(item.text)) &&
          (kind === undefined || item.kind === kind) &&
          (subject === undefined || item.subject === subject) &&
          (date === undefined || namesDay(item.text, date)),
      ),
  );
  const forbidden = items.filter((item) =>
    must_not.some((excluded) => excluded.pattern.test(item.text) && (excluded.subject === null || excluded.subject === item.subject)),
  );
  return {
    missed: missed.map(({ all, kind, subject, date }) =>
      [all.map((each) => each.source).join(' & '), kind, subject, date].filter(Boolean).join(', '),
    ),
    forbidden: forbidden.map(({ text }) => text),
  };
}

/** Returns true if a text mentions the date in one of the usual formats. @param {string} text @param {string} date */
function namesDay(text, date) {
  const [, month, ofMonth] = date.split('-').map(Number);
  const numbers = findNumbers(text).flat();
  const monthNames = ['en', 'de', 'fr', 'es'].map((locale) =>
    new Date(date).toLocaleDateString(locale, { month: 'long', timeZone: 'UTC' }),
  );
  const isMonthNamed = monthNames.some((name) => text.toLowerCase().includes(name.toLowerCase()));
  return numbers.includes(String(ofMonth)) && (numbers.includes(String(month)) || isMonthNamed);
}

/** @param {string} text */
function isPattern(text) {
  try {
    return Boolean(toPattern(text));
  } catch {
    return false;
  }
}

/** @param {string} text */
function toPattern(text) {
  return new RegExp(text, 'isu');
}
