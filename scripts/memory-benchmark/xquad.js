/**
 * Reads XQuAD. It has 240 paragraphs from Wikipedia and 1,190 questions about them, which people have translated into
 * eleven languages. We search each of the languages separately, but with the same questions.
 */

/**
 * The languages in the order of the reports. Only look at the `tuned` ones when improving search, and check the outcome
 * with the `held-out` ones.
 */
export const languages = {
  tuned: ['en', 'de', 'ru', 'ar', 'zh'],
  'held-out': ['es', 'ro', 'el', 'tr', 'vi', 'hi', 'th'],
};

/** Thai doesn't mark the end of a sentence, so the segmenter returns very long sentences. We split those at spaces. */
const longSentence = 300;
const shortPart = 120;

/**
 * Turns each sentence into a memory. The data set marks where the answer is, and we look for the sentence in which it
 * starts.
 * @param {string} language
 * @param {string} text the content of the language's file
 * @returns {import('./dataset.js').Conversation}
 */
export function parseXquad(language, text) {
  /** @type {{ data: { paragraphs: { context: string, qas: { question: string, answers: { text: string, answer_start: number }[] }[] }[] }[] }} */
  const { data } = JSON.parse(text);
  /** @type {import('./dataset.js').Memory[]} */
  const memories = [];
  /** @type {import('./dataset.js').Question[]} */
  const questions = [];
  for (const [number, { context, qas }] of data.flatMap(({ paragraphs }) => paragraphs).entries()) {
    const sentences = splitSentences(context, language);
    const ids = sentences.map((_, index) => `${number + 1}/${index + 1}`);
    for (const [index, { text: sentence }] of sentences.entries())
      memories.push({
        ...{ id: `${language}/${ids[index]}`, text: sentence, conversation: language, session: number + 1 },
        ...{ date: '', speaker: '', sources: [ids[index] ?? ''] },
      });
    // `answer_start` counts code points, because the data set was made with Python.
    const points = [...context];
    for (const { question, answers } of qas) {
      const start = points.slice(0, answers[0]?.answer_start ?? 0).join('').length;
      const at = sentences.findLastIndex(({ from }) => from <= start);
      questions.push({ text: question, answer: answers[0]?.text ?? '', kind: 'question', sources: [ids[at] ?? ''] });
    }
  }
  return { id: language, half: null, memories, questions };
}

/**
 * Splits a paragraph into sentences. `from` is where a sentence starts.
 * @param {string} text @param {string} language @returns {{ from: number, text: string }[]}
 */
export function splitSentences(text, language) {
  const sentences = [...new Intl.Segmenter(language, { granularity: 'sentence' }).segment(text)];
  return sentences
    .flatMap(({ segment, index }) => splitLong(segment).map((part) => ({ from: index + part.from, text: part.text.trim() })))
    .filter((sentence) => sentence.text !== '');
}

/** @param {string} sentence @returns {{ from: number, text: string }[]} */
function splitLong(sentence) {
  const parts = [];
  let from = 0;
  while (sentence.length - from > longSentence) {
    const space = sentence.indexOf(' ', from + shortPart);
    if (space < 0 || sentence.length - space < shortPart) break;
    parts.push({ from, text: sentence.slice(from, space) });
    from = space + 1;
  }
  return [...parts, { from, text: sentence.slice(from) }];
}
