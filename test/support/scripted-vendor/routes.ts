/**
 * The routes of the scripted vendor. It has all routes of the demo vendor, some of which understand more model names,
 * and adds a few formats.
 */
import { gemini, openai } from '../../../src/demo-vendor/errors.ts';
import { handleImageEdits } from '../../../src/demo-vendor/images.ts';
import {
  bodyRoute,
  createRoutes,
  type FindRoute,
  matchPatterns,
  namelessRoute,
  pathRoute,
  type Route,
} from '../../../src/demo-vendor/routes.ts';
import { handleCountTokens } from './anthropic-messages.ts';
import { handleScriptedChat } from './chat.ts';
import { anthropic, artifacts, voice } from './families.ts';
import { handleArtifacts, handleImageFile, handleScriptedImages } from './images.ts';
import { handleScriptedMessages } from './messages.ts';
import { withUsageByScript } from './response.ts';
import { handleResponses } from './responses.ts';
import { handleScriptedSpeech, handleVoice } from './speech.ts';
import { handleScriptedTranscription } from './transcriptions.ts';
import type { Videos } from './videos.ts';

export function createScriptedRoutes(videos: Videos): FindRoute {
  const findDemoRoute = createRoutes();
  const exact: ReadonlyMap<string, Route> = new Map([
    ['/v1/chat/completions', bodyRoute(openai, handleScriptedChat)],
    ['/v1/messages', bodyRoute(anthropic, handleScriptedMessages)],
    ['/v1/messages/count_tokens', bodyRoute(anthropic, handleCountTokens)],
    ['/v1/responses', bodyRoute(openai, handleResponses)],
    ['/v1/images/generations', bodyRoute(openai, withUsageByScript(handleScriptedImages))],
    ['/v1/images/edits', bodyRoute(openai, withUsageByScript(handleImageEdits))],
    ['/v1/audio/transcriptions', bodyRoute(openai, withUsageByScript(handleScriptedTranscription))],
    ['/v1/audio/translations', bodyRoute(openai, withUsageByScript(handleScriptedTranscription))],
    ['/v1/audio/speech', bodyRoute(openai, handleScriptedSpeech)],
    ['/v1/speak', { ...bodyRoute(voice, handleVoice), readModel: ({ query }) => modelInQuery(query) }],
  ]);
  const findByPattern = matchPatterns([
    ['POST', /^\/v1\/genai\/[^/]+\/([^/]+)$/, pathRoute(artifacts, handleArtifacts)],
    ['POST', /^\/v1\/text-to-speech\/([^/]+)$/, pathRoute(voice, handleVoice)],
    ['POST', /^\/v1beta\/models\/([^/]+):predictLongRunning$/, pathRoute(gemini, videos.start)],
    ['GET', /^\/v1beta\/(models\/[^/]+\/operations\/[^/]+)$/, namelessRoute(gemini, videos.poll)],
    ['GET', /^\/v1beta\/files\/([^/:]+):download$/, namelessRoute(gemini, videos.download)],
    ['GET', /^\/v1beta\/stored\/([^/]+)\.mp4$/, { ...namelessRoute(gemini, videos.stored), needsKey: false }],
    ['GET', /^\/files\/([^/]+)\.png$/, { ...namelessRoute(openai, handleImageFile), needsKey: false }],
  ]);
  return (method, path) => {
    const own = method === 'POST' ? exact.get(path) : undefined;
    if (own !== undefined) return { route: own, pathParam: '' };
    const matched = findByPattern(method, path);
    if (matched !== null) return matched;
    const demo = findDemoRoute(method, path);
    return demo && { ...demo, route: { ...demo.route, handle: withUsageByScript(demo.route.handle) } };
  };
}

/** A model's name can contain plus signs, which URLSearchParams has decoded as spaces. */
function modelInQuery(query: string): string {
  return (new URLSearchParams(query).get('model') ?? '').replaceAll(' ', '+');
}
