/**
 * The script of an answer, read from the model's name. A name is words joined by `+` (`echo+slow-200+crlf`), or by `:` where names may not
 * hold a `+` (images, videos); words that are no fault are just a name, so that any model works and `rate-limited-once-1+mine` is a model of
 * its own. A fault with a bad number is answered 400.
 *
 * Instead of an answer
 *   fail-<status>  fail-once-<status>        an error in the dialect's form; `once`: the first request of this model only
 *   refuse-<status>                          an error that speaks about the request (400, 413, 415, 422)
 *   rate-limited  rate-limited-<seconds>     429 with `retry-after` (1 when not given; fractions allowed)
 *   rate-limited-once-<seconds>              429 for the first request of this model, then fine
 *   rate-limited-ms-<n>                      429 with `retry-after-ms`
 *   rate-limited-date-<seconds>              429 with `retry-after` as an HTTP date
 *   rate-limited-reset-<seconds>             429 with the dialect's reset headers only
 *   rate-limited-body-<seconds>              429 with the hint in the body (Google's RetryInfo)
 *   rate-limited-bare                        429 without any hint
 *   quota  spend-limit                       429 that no waiting heals
 *   not-found                                404: this path does not exist
 *   hang                                     takes the request, never answers
 *   redirect                                 302 to another origin
 *   garbage  empty  wrong-type               200 with cut-off JSON, with no byte, with HTML
 *
 * During the answer: `n` counts pieces with content; an answer with fewer is hit at its end, before the closing events
 *   slow-<ms>  pace-<ms>                     first byte after ms; ms between two pieces
 *   held                                     first byte when `release()` is called, by whoever runs the vendor in its own process
 *   break-before-first  break-after-<n>      head sent, then the socket ends (a plain answer with n >= 1: half of it)
 *   stall-before-first  stall-after-<n>      the same, but the socket stays open and silent
 *   error-before-first  error-after-<n>      an error event, then the end (a plain answer: 500)
 *   tiny-bytes  crlf                         events byte by byte; CRLF, comments, and writes that split characters and line ends
 *   no-done                                  a chat stream without `[DONE]`
 *
 * What is answered
 *   echo (any other name)                    "You said: ..."; calls a tool when the user's text names one of `tools`
 *   echo-body                                the request's body as text
 *   say-<base64url>                          exactly this text
 *   long-<n>  big-<kib>                      n words; this many KiB
 *   tool  tools-parallel  tools-interleaved  one or two tool calls (interleaved: in chat streams piece by piece in turn); text after a tool result
 *   filtered                                 the vendor's filter took the answer
 *   cached-<n>  cache-written-<n>            n more input tokens, reported as read from (messages: written to) the cache
 *   no-usage  usage-in-finish                never usage; chat streams: usage in the finishing chunk, asked for or not
 *   numbers                                  members with 1.0, 1e5, 12345678901234567890 and odd white space in every JSON object answered
 *   b64-only  image-url                      images: `response_format` is refused; always an address
 *   video-polls-<n>  video-fails  video-elsewhere    running for n polls (2); ends as failed; the file redirects to another origin
 */

/** How long to wait, in which form it is said. */
export type RetryHint =
  | { readonly form: 'seconds' | 'milliseconds' | 'date' | 'reset' | 'body'; readonly amount: number }
  | { readonly form: 'none' };

export type Fault =
  | { readonly kind: 'status' | 'refuse'; readonly status: number }
  | { readonly kind: 'rate-limited'; readonly hint: RetryHint }
  | { readonly kind: 'quota' | 'spend-limit' | 'not-found' | 'hang' | 'redirect' | 'garbage' | 'empty' | 'wrong-type' };

export type Content =
  | { readonly kind: 'echo' | 'body' | 'tool' | 'tools-parallel' | 'tools-interleaved' }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'words' | 'kibibytes'; readonly count: number };

export interface Script {
  /** The whole name, as asked. */
  readonly model: string;
  /** A word that looks like a fault but has a bad number; null when all is well. */
  readonly invalidTerm: string | null;
  readonly fault: Fault | null;
  /** The fault meets the first request of this model only. */
  readonly once: boolean;
  /** What happens to the answer on its way; `after` null: before its first piece. */
  readonly cut: { readonly kind: 'break' | 'stall' | 'error'; readonly after: number | null } | null;
  readonly slowMs: number;
  readonly held: boolean;
  /** Null: the vendor's own pace. */
  readonly paceMs: number | null;
  readonly wire: 'plain' | 'tiny-bytes' | 'crlf';
  readonly done: boolean;
  readonly content: Content;
  readonly filtered: boolean;
  readonly cachedTokens: number;
  readonly cacheWrittenTokens: number;
  readonly usage: 'normal' | 'none' | 'in-finish';
  readonly numbers: boolean;
  readonly image: 'normal' | 'b64-only' | 'url';
  readonly video: { readonly polls: number; readonly fails: boolean; readonly elsewhere: boolean };
}

const maxCachedScripts = 1_000;
const maxAmount = 10_000_000;
const scriptsByModel = new Map<string, Script>();

/** Reads a model's name; the same name gives the same object as long as it is kept. */
export function parseScript(model: string): Script {
  const cached = scriptsByModel.get(model);
  if (cached !== undefined) return cached;
  const script = model.split(/[+:]/).reduce(applyTerm, { ...defaultScript, model });
  if (scriptsByModel.size >= maxCachedScripts) scriptsByModel.clear();
  scriptsByModel.set(model, script);
  return script;
}

const defaultScript: Script = {
  model: '',
  invalidTerm: null,
  fault: null,
  once: false,
  cut: null,
  slowMs: 0,
  held: false,
  paceMs: null,
  wire: 'plain',
  done: true,
  content: { kind: 'echo' },
  filtered: false,
  cachedTokens: 0,
  cacheWrittenTokens: 0,
  usage: 'normal',
  numbers: false,
  image: 'normal',
  video: { polls: 2, fails: false, elsewhere: false },
};

function applyTerm(script: Script, term: string): Script {
  const change = exactTerms.get(term);
  if (change !== undefined) return { ...script, ...change };
  if (term === 'video-fails') return { ...script, video: { ...script.video, fails: true } };
  if (term === 'video-elsewhere') return { ...script, video: { ...script.video, elsewhere: true } };
  if (term.startsWith('say-')) {
    return { ...script, content: { kind: 'text', text: Buffer.from(term.slice(4), 'base64url').toString('utf8') } };
  }
  // The longest prefix first: `rate-limited-ms-` before `rate-limited-`.
  const prefix = prefixes.find((candidate) => term.startsWith(candidate));
  if (prefix === undefined) return script;
  const rest = term.slice(prefix.length);
  const amount = /^\d+(\.\d+)?$/.test(rest) ? Number(rest) : Number.NaN;
  const numbered = numberedTerms[prefix]?.(amount, script);
  return numbered === undefined || !(amount <= maxAmount) ? { ...script, invalidTerm: term } : { ...script, ...numbered };
}

/** A map, not an object: a model may be called `constructor`. */
const exactTerms: ReadonlyMap<string, Partial<Script>> = new Map<string, Partial<Script>>(
  Object.entries({
    'rate-limited': { fault: rateLimited('seconds', 1) },
    'rate-limited-bare': { fault: { kind: 'rate-limited', hint: { form: 'none' } } },
    quota: { fault: { kind: 'quota' } },
    'spend-limit': { fault: { kind: 'spend-limit' } },
    'not-found': { fault: { kind: 'not-found' } },
    hang: { fault: { kind: 'hang' } },
    redirect: { fault: { kind: 'redirect' } },
    garbage: { fault: { kind: 'garbage' } },
    empty: { fault: { kind: 'empty' } },
    'wrong-type': { fault: { kind: 'wrong-type' } },
    'break-before-first': { cut: { kind: 'break', after: null } },
    'stall-before-first': { cut: { kind: 'stall', after: null } },
    'error-before-first': { cut: { kind: 'error', after: null } },
    held: { held: true },
    'tiny-bytes': { wire: 'tiny-bytes' },
    crlf: { wire: 'crlf' },
    'no-done': { done: false },
    'echo-body': { content: { kind: 'body' } },
    tool: { content: { kind: 'tool' } },
    'tools-parallel': { content: { kind: 'tools-parallel' } },
    'tools-interleaved': { content: { kind: 'tools-interleaved' } },
    filtered: { filtered: true },
    'no-usage': { usage: 'none' },
    'usage-in-finish': { usage: 'in-finish' },
    numbers: { numbers: true },
    'b64-only': { image: 'b64-only' },
    'image-url': { image: 'url' },
  } satisfies Record<string, Partial<Script>>),
);

/** Words that end in a number; undefined: the number is not one this word can have. */
const numberedTerms: Readonly<Record<string, (amount: number, script: Script) => Partial<Script> | undefined>> = {
  'fail-once-': (status) => (isErrorStatus(status) ? { fault: { kind: 'status', status }, once: true } : undefined),
  'fail-': (status) => (isErrorStatus(status) ? { fault: { kind: 'status', status } } : undefined),
  'refuse-': (status) => (isErrorStatus(status) ? { fault: { kind: 'refuse', status } } : undefined),
  'rate-limited-once-': (seconds) => ({ fault: rateLimited('seconds', seconds), once: true }),
  'rate-limited-ms-': (milliseconds) => ({ fault: rateLimited('milliseconds', milliseconds) }),
  'rate-limited-date-': (seconds) => ({ fault: rateLimited('date', seconds) }),
  'rate-limited-reset-': (seconds) => ({ fault: rateLimited('reset', seconds) }),
  'rate-limited-body-': (seconds) => ({ fault: rateLimited('body', seconds) }),
  'rate-limited-': (seconds) => ({ fault: rateLimited('seconds', seconds) }),
  'slow-': (slowMs) => ({ slowMs }),
  'pace-': (paceMs) => ({ paceMs }),
  'break-after-': (after) => ({ cut: { kind: 'break', after } }),
  'stall-after-': (after) => ({ cut: { kind: 'stall', after } }),
  'error-after-': (after) => ({ cut: { kind: 'error', after } }),
  'long-': (count) => (count <= 1_000_000 ? { content: { kind: 'words', count } } : undefined),
  'big-': (count) => (count <= 65_536 ? { content: { kind: 'kibibytes', count } } : undefined),
  'cached-': (cachedTokens) => ({ cachedTokens }),
  'cache-written-': (cacheWrittenTokens) => ({ cacheWrittenTokens }),
  'video-polls-': (polls, script) => ({ video: { ...script.video, polls } }),
};

const prefixes = Object.keys(numberedTerms).sort((left, right) => right.length - left.length);

function rateLimited(form: 'seconds' | 'milliseconds' | 'date' | 'reset' | 'body', amount: number): Fault {
  return { kind: 'rate-limited', hint: { form, amount } };
}

function isErrorStatus(status: number): boolean {
  return Number.isInteger(status) && status >= 400 && status <= 599;
}
