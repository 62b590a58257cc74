/**
 * A scripted model that returns the statements which the learning set contains for a conversation. Some of them are
 * correct, and others have to be refused.
 */

/** @type {import('./learn.js').AskModel} */
export async function askScripted({ job }, { scripted }) {
  if (job === 'consolidate') return JSON.stringify({ merges: [], facts: [], page: '' });
  return JSON.stringify({ memories: scripted.map(({ refused: _, ...statement }) => ({ ...statement, importance: 3 })) });
}

/**
 * Compares the refused statements with those that should have been refused, and returns the differences. This includes
 * statements that were refused for the wrong reason.
 * @param {import('./learning-set.js').LearningCase} learningCase
 * @param {import('./learn.js').Learned} learned
 */
export function checkScripted({ conversations }, { refusals }) {
  const expected = conversations.flatMap(({ scripted }) => scripted.flatMap(({ refused }) => refused ?? []));
  return expected.join() === refusals.join() ? [] : [`refused: ${refusals.join() || 'nothing'}, expected: ${expected.join() || 'nothing'}`];
}
