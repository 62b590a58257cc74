/** The scripted model: returns the statements that the set gives for a conversation, honest ones and such that learning must refuse. */

/** @type {import('./learn.js').AskModel} */
export async function askScripted({ job }, { scripted }) {
  if (job === 'consolidate') return JSON.stringify({ merges: [], facts: [], page: '' });
  return JSON.stringify({ memories: scripted.map(({ refused: _, ...statement }) => ({ ...statement, importance: 3 })) });
}

/**
 * Mistakes of the plumbing: statements that should have been refused, or for another reason, or should not.
 * @param {import('./learning-set.js').LearningCase} learningCase
 * @param {import('./learn.js').Learned} learned
 */
export function checkScripted({ conversations }, { refusals }) {
  const expected = conversations.flatMap(({ scripted }) => scripted.flatMap(({ refused }) => refused ?? []));
  return expected.join() === refusals.join() ? [] : [`refused: ${refusals.join() || 'nothing'}, expected: ${expected.join() || 'nothing'}`];
}
