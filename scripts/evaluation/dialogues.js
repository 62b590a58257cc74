import { kinds, toDate } from '../memory-benchmark/locomo.js';

/** @typedef {{ text: string, answer: string, kind: string }} AnsweredQuestion */
/** @typedef {{ id: string, sessions: { at: Date, messages: string[] }[], questions: AnsweredQuestion[] }} Dialogue */

/**
 * Parses all LoCoMo conversations. Neither speaker is an assistant, so both have the role `user` and each message
 * starts with the speaker's name. Images are replaced by their description.
 * @param {string} text in the format of `locomo10.json`
 * @returns {Dialogue[]}
 */
export function parseDialogues(text) {
  /** @type {any[]} */
  const samples = JSON.parse(text);
  return samples.map(({ sample_id: id, conversation, qa }) => {
    const sessions = Object.keys(conversation)
      .flatMap((name) => /^session_(\d+)$/.exec(name)?.[1] ?? [])
      .map(Number)
      .sort((left, right) => left - right)
      .map((number) => ({
        at: new Date(toDate(conversation[`session_${number}_date_time`])),
        messages: /** @type {{ speaker: string, text: string, blip_caption?: string }[]} */ (conversation[`session_${number}`]).map(
          ({ speaker, text: said, blip_caption: image }) => `${speaker}: ${said}${image ? ` (image: ${image})` : ''}`,
        ),
      }));
    const questions = /** @type {{ question: string, answer?: string | number, category: number }[]} */ (qa).flatMap(
      ({ question, answer, category }) => {
        const kind = kinds.get(category);
        return kind && answer !== undefined ? [{ text: question, answer: String(answer), kind }] : [];
      },
    );
    return { id, sessions, questions };
  });
}
