/** A browser without a session. It keeps the console's cookies, and submits forms with their hidden fields. */

export interface Visitor {
  readonly cookies: Map<string, string>;
  /** The `set-cookie` headers of the last response. */
  setCookies(): readonly string[];
  get(path: string): Promise<Response>;
  /** Opens the page and returns the hidden fields of its form with this action. */
  readForm(page: string, action: string): Promise<Record<string, string>>;
  /** Opens the page and submits its form with these fields. */
  submit(page: string, action: string, fields: Record<string, string>): Promise<Response>;
  post(path: string, fields: Record<string, string>): Promise<Response>;
}

export function createVisitor(url: string, headers: Record<string, string> = {}): Visitor {
  const cookies = new Map<string, string>();
  let last: readonly string[] = [];
  const send = async (path: string, init: RequestInit): Promise<Response> => {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(url + path, { ...init, headers: { ...headers, 'user-agent': 'visitor', cookie }, redirect: 'manual' });
    last = response.headers.getSetCookie();
    for (const header of last) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(header) ?? [];
      if (value === '') cookies.delete(name);
      else cookies.set(name, value);
    }
    return response;
  };
  const post: Visitor['post'] = (path, fields) => send(path, { method: 'POST', body: new URLSearchParams(fields) });
  const readForm: Visitor['readForm'] = async (page, action) => {
    const text = await (await send(page, {})).text();
    const form = text.split('<form').find((part) => part.includes(`action="${action}"`)) ?? '';
    const hidden = form.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g);
    return Object.fromEntries([...hidden].map(([, name = '', value = '']) => [name, value]));
  };
  return {
    cookies,
    setCookies: () => last,
    get: (path) => send(path, {}),
    post,
    readForm,
    submit: async (page, action, fields) => post(action, { ...(await readForm(page, action)), ...fields }),
  };
}
