/** Text and sizes that are used in more than one part of the benchmark. */
import { numberMark } from './http-messages.js';

/** An answer of about 700 bytes. It contains a number, which is different in each call. */
export const answerText = `Answer ${numberMark}: ${'a short paragraph of an ordinary answer with nothing special in it; '.repeat(10)}`;

/** A question of about 900 bytes. Like the answer, it contains a number that is different in each call. */
export const questionText = `Question ${numberMark}: ${'please say in plain terms how this would be done, and why it is so; '.repeat(13)}`;

/** A question of about 20 tokens, with a number so that no two calls are the same. */
export const shortQuestion = `Is the answer to question ${numberMark} in the report of the plan, and is it ready?`;

/** How many events a stream has, including the final `[DONE]`. */
export const chunkCount = 50;
export const pacedChunkMs = 10;
/** The time between two events of a stream in the `open-streams` scenario. */
export const openChunkMs = 5_000;
