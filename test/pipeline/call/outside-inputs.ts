/** Requests that refer to input outside of the body, or to input whose size we can't tell from the body. */
import type { TextRoute } from '../../../src/core/call.ts';

export const outsideInputs: readonly [string, TextRoute, object][] = [
  ['an earlier response', 'responses', { previous_response_id: 'resp_1' }],
  ['a conversation', 'responses', { conversation: 'conv_1' }],
  ['a stored prompt', 'responses', { prompt: { id: 'pmpt_1' } }],
  ['a file', 'responses', { input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'file-1' }] }] }],
  [
    'a document by URL',
    'messages',
    { messages: [{ role: 'user', content: [{ type: 'document', source: { type: 'url', url: 'https://example.com/a.pdf' } }] }] },
  ],
  ['an item of an earlier response', 'responses', { input: [{ type: 'item_reference', id: 'msg_1' }] }],
  ['an item of an earlier response without its type', 'responses', { input: [{ id: 'msg_1' }] }],
  ...(
    [
      ["a document by URL in Mistral's format", { type: 'document_url', document_url: 'https://example.com/a.pdf' }],
      ['a file by its address', { type: 'file', file: { filename: 'a.pdf', file_data: 'https://example.com/a.pdf' } }],
      ["a file in Z.ai's format", { type: 'file_url', file_url: { url: 'https://example.com/a.pdf' } }],
      ['a file whose address is in an object', { type: 'file', file: { file_url: { url: 'https://example.com/a.pdf' } } }],
      ['a video as a list of frames', { type: 'video', video: ['https://example.com/1.jpg'] }],
      ['audio by its address', { type: 'audio_url', audio_url: { url: 'https://example.com/a.mp3' } }],
      ['audio by its address instead of data', { type: 'input_audio', input_audio: { data: 'https://example.com/a.mp3', format: 'mp3' } }],
      // Pages are compressed, so a document can have a thousand times more tokens than bytes.
      ['a small document', { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0xLjc=' } }],
    ] as const
  ).map(([what, part]): [string, TextRoute, object] => [what, 'chat', { messages: [{ role: 'user', content: [part] }] }]),
  [
    'a small document of messages',
    'messages',
    {
      messages: [
        {
          role: 'user',
          content: [{ type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0xLjc=' } }],
        },
      ],
    },
  ],
  ['a thread of earlier messages', 'messages', { messages: [], thread: { type: 'continue', previous_message_id: 'msg_1' } }],
  ['content that Gemini has cached', 'chat', { messages: [], cached_content: 'cachedContents/1' }],
  ['cached content in camel case', 'chat', { messages: [], cachedContent: 'cachedContents/1' }],
  ['cached content in extra_body', 'chat', { messages: [], extra_body: { google: { cached_content: 'cachedContents/1' } } }],
  ['cached content in google', 'chat', { messages: [], google: { cachedContent: 'cachedContents/1' } }],
  ['an MCP server', 'messages', { messages: [], mcp_servers: [{ type: 'url', url: 'https://example.com', name: 'x' }] }],
  ['the tools of an MCP server', 'messages', { messages: [], tools: [{ type: 'mcp_toolset', mcp_server_name: 'x' }] }],
  ['an MCP server of responses', 'responses', { input: 'hi', tools: [{ type: 'mcp', server_url: 'https://example.com' }] }],
  [
    'a PDF in place of an image',
    'chat',
    { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:application/pdf;base64,JVBERi0xLjc=' } }] }] },
  ],
];
