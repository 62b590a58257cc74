/**
 * Pretends to be a model. For each conversation, it returns the statements in the learning set. Some of them are
 * correct, and we expect the others to be refused.
 */

/** @type {import('./learn.js').AskModel} */
export async function askScripted({ job }, { scripted }) {
  if (job === 'consolidate') return JSON.stringify({ merges: [], facts: [], page: '' });
  return JSON.stringify({ memories: scripted.map(({ refused: _, ...statement }) => ({ ...statement, importance: 3 })) });
}

/**
 * Finds the differences between the statements that were refused and those that should have been. It also counts as a
 * difference if the reason isn't the expected one.
 * @param {import('./learning-set.js').LearningCase} learningCase
 * @param {import('./learn.js').Learned} learned
 */
export function checkScripted({ conversations }, { refusals }) {
  const expected = conversations.flatMap(({ scripted }) => scripted.flatMap(({ refused }) => refused ?? []));
  return expected.join() === refusals.join() ? [] : [`refused: ${refusals.join() || 'nothing'}, expected: ${expected.join() || 'nothing'}`];
}
