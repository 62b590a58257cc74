/** Texts and sizes that the benchmark's vendor, callers and scenarios share. */
import { numberMark } from './http-messages.js';

/** About 700 bytes, different in every call. */
export const answerText = `Answer ${numberMark}: ${'a short paragraph of an ordinary answer with nothing special in it; '.repeat(10)}`;

/** About 900 bytes, different in every call. */
export const questionText = `Question ${numberMark}: ${'please say in plain terms how this would be done, and why it is so; '.repeat(13)}`;

/** About 20 tokens, different in every call. */
export const shortQuestion = `Is the answer to question ${numberMark} in the report of the plan, and is it ready?`;

/** The number of events in a stream, including the end mark. */
export const chunkCount = 50;
export const pacedChunkMs = 10;
/** The time between two events of a stream that stays open. */
export const openChunkMs = 5_000;
