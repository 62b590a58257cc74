/**
 * A fake model that returns the statements in the learning set, some of which are expected to be refused.
 */

/** @type {import('./learn.js').AskModel} */
export async function askScripted({ job }, { scripted }) {
  if (job === 'consolidate') return JSON.stringify({ merges: [], facts: [], page: '' });
  return JSON.stringify({ memories: scripted.map(({ refused: _, ...statement }) => ({ ...statement, importance: 3 })) });
}

/**
 * Compares the refused statements with those that should be refused, and the reasons with the expected ones.
 * @param {import('./learning-set.js').LearningCase} learningCase
 * @param {import('./learn.js').Learned} learned
 */
export function checkScripted({ conversations }, { refusals }) {
  const expected = conversations.flatMap(({ scripted }) => scripted.flatMap(({ refused }) => refused ?? []));
  return expected.join() === refusals.join() ? [] : [`refused: ${refusals.join() || 'nothing'}, expected: ${expected.join() || 'nothing'}`];
}
