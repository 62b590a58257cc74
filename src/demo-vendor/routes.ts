/** Every address of the demo vendor, one line each. */

import { answerChat } from './chat.ts';
import { answerEmbeddings } from './embeddings.ts';
import type { Family } from './errors.ts';
import { answerArtifacts, answerImageFile, answerImages } from './images.ts';
import { answerMessages } from './messages.ts';
import { answerModerations, answerRerank } from './moderation-rerank.ts';
import type { Answer, Question } from './response.ts';
import { answerResponses } from './responses.ts';
import { answerSpeech, answerVoice } from './speech.ts';
import type { Videos } from './videos.ts';

export interface Route {
  readonly family: Family;
  /** Where the model's name, and with it the script, stands. */
  readonly modelIn: 'body' | 'path' | 'query' | 'nowhere';
  readonly needsKey: boolean;
  answer(question: Question): Answer;
}

export interface FoundRoute {
  readonly route: Route;
  readonly caught: string;
}

/** Finds the route of a request; null for an address that is not there. */
export function createRoutes(videos: Videos): (method: string, path: string) => FoundRoute | null {
  const body = (family: Family, answer: Route['answer']): FoundRoute => ({
    route: { family, modelIn: 'body', needsKey: true, answer },
    caught: '',
  });
  const exact: ReadonlyMap<string, FoundRoute> = new Map([
    ['/v1/chat/completions', body('openai', answerChat)],
    ['/v1/messages', body('anthropic', answerMessages)],
    ['/v1/embeddings', body('openai', answerEmbeddings)],
    ['/v1/responses', body('openai', answerResponses)],
    ['/v1/moderations', body('openai', answerModerations)],
    ['/v1/rerank', body('openai', answerRerank)],
    ['/v1/images/generations', body('openai', answerImages)],
    ['/v1/audio/speech', body('openai', answerSpeech)],
    ['/v1/speak', { route: { family: 'voice', modelIn: 'query', needsKey: true, answer: answerVoice }, caught: '' }],
  ]);
  const caught: readonly (Route & { readonly method: string; readonly pattern: RegExp })[] = [
    {
      method: 'POST',
      pattern: /^\/v1\/genai\/[^/]+\/([^/]+)$/,
      family: 'artifacts',
      modelIn: 'path',
      needsKey: true,
      answer: answerArtifacts,
    },
    { method: 'POST', pattern: /^\/v1\/text-to-speech\/([^/]+)$/, family: 'voice', modelIn: 'path', needsKey: true, answer: answerVoice },
    {
      method: 'POST',
      pattern: /^\/v1beta\/models\/([^/]+):predictLongRunning$/,
      family: 'gemini',
      modelIn: 'path',
      needsKey: true,
      answer: videos.start,
    },
    {
      method: 'GET',
      pattern: /^\/v1beta\/(models\/[^/]+\/operations\/[^/]+)$/,
      family: 'gemini',
      modelIn: 'nowhere',
      needsKey: true,
      answer: videos.poll,
    },
    {
      method: 'GET',
      pattern: /^\/v1beta\/files\/([^/:]+):download$/,
      family: 'gemini',
      modelIn: 'nowhere',
      needsKey: true,
      answer: videos.download,
    },
    {
      method: 'GET',
      pattern: /^\/v1beta\/stored\/([^/]+)\.mp4$/,
      family: 'gemini',
      modelIn: 'nowhere',
      needsKey: false,
      answer: videos.stored,
    },
    { method: 'GET', pattern: /^\/files\/([^/]+)\.png$/, family: 'openai', modelIn: 'nowhere', needsKey: false, answer: answerImageFile },
  ];

  return (method, path) => {
    const found = method === 'POST' ? exact.get(path) : undefined;
    if (found !== undefined) return found;
    for (const route of caught) {
      const match = route.method === method ? route.pattern.exec(path) : null;
      if (match !== null) return { route, caught: match[1] ?? '' };
    }
    return null;
  };
}
