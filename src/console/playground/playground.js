// Streams the responses of one or two models into the page, and lets people attach image files. Without this script,
// people wait for complete responses and enter image URLs.
{
  const form = document.querySelector('#playground');
  const stop = document.querySelector('#stop');
  const results = document.querySelector('#results');
  const template = document.querySelector('#result');
  const pictures = document.querySelector('#pictures');
  /** The server accepts forms of up to 12 MiB, and a `data:` URL is a third longer than the file that it encodes. */
  const maxImageCharacters = 10_000_000;
  let running = null;

  form?.addEventListener('submit', async (event) => {
    // Buttons named `do` edit the conversation on the server, so let the form submit normally.
    if (event.submitter?.name === 'do') return;
    event.preventDefault();
    running?.abort();
    const controller = new AbortController();
    running = controller;
    const fields = readFields();
    const models = [fields.get('model'), fields.get('other')].filter(Boolean);
    results.replaceChildren(...models.map(newCard));
    stop.hidden = false;
    form.setAttribute('aria-busy', 'true');
    await Promise.all(models.map((model, index) => run(model, fields, results.children[index], controller.signal)));
    if (running !== controller) return;
    stop.hidden = true;
    form.removeAttribute('aria-busy');
  });
  stop?.addEventListener('click', () => running?.abort());
  form?.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });

  function readFields() {
    const fields = new URLSearchParams(new FormData(form));
    for (const name of ['answer_text', 'answer_calls']) fields.delete(name);
    return fields;
  }

  function newCard(model, index) {
    const card = template.content.cloneNode(true);
    card.querySelector('.result-model').textContent = model;
    card.querySelector('.result-text').replaceChildren();
    const next = card.querySelector('.result-continue');
    next.value = `continue.${index}`;
    next.setAttribute('formaction', `${form.getAttribute('action')}/edit`);
    return card;
  }

  async function run(model, fields, card, signal) {
    const body = new URLSearchParams(fields);
    body.set('model', model);
    const text = card.querySelector('.result-text');
    card.setAttribute('aria-busy', 'true');
    try {
      const response = await fetch(form.dataset.stream, { method: 'POST', body, signal, headers: { 'hx-request': 'true' } });
      if (response.status === 401) signInAgain();
      else if (!response.ok) showError(card, new DOMParser().parseFromString(await response.text(), 'text/html').body.textContent.trim());
      else
        for await (const event of readEvents(response.body)) {
          if (event.name === 'text') text.append(event.data.text);
          else if (event.name === 'tools') showTools(card, event.data.calls);
          else showEnd(card, event.data);
        }
      keepAnswer(card, text.textContent);
    } catch (error) {
      keepAnswer(card, text.textContent);
      if (error.name === 'AbortError') text.append(' (stopped)');
      else showError(card, 'The connection was lost.');
    }
    card.removeAttribute('aria-busy');
  }

  /**
   * The server keeps the form's input while people sign in again, but only up to a certain size, so we remove large
   * images.
   */
  function signInAgain() {
    for (const field of form.querySelectorAll('[name="image"], [name="turn_images"]')) if (field.value.length > 50_000) field.value = '';
    form.submit();
  }

  async function* readEvents(stream) {
    let buffer = '';
    const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      buffer += value;
      const blocks = buffer.split('\n\n');
      buffer = blocks.pop();
      for (const block of blocks) {
        const [, name, data] = /^event: (\w+)\ndata: (.*)$/s.exec(block) ?? [];
        if (name) yield { name, data: JSON.parse(data) };
      }
    }
  }

  function keepAnswer(card, text) {
    const field = card.querySelector('[name="answer_text"]');
    field.value = text;
    card.querySelector('.result-continue').hidden = text === '' && card.querySelector('[name="answer_calls"]').value === '';
  }

  function showTools(card, calls) {
    card.querySelector('[name="answer_calls"]').value = JSON.stringify(calls);
    card.querySelector('.result-tools').replaceChildren(
      ...calls.map((call) => {
        const title = element('p', { className: 'muted', textContent: 'Calls ' });
        title.append(element('code', { textContent: call.name }));
        const given = element('pre', { className: 'text' });
        given.append(element('code', { textContent: call.arguments }));
        const item = element('div', { className: 'tool-call' });
        item.append(title, given);
        return item;
      }),
    );
  }

  function showEnd(card, { error, figures, links }) {
    if (error !== null) showError(card, error);
    const list = element('dl', { className: 'definitions' });
    for (const [label, value] of figures) {
      const item = element('div', {});
      item.append(element('dt', { textContent: label }), element('dd', { textContent: value }));
      list.append(item);
    }
    card.querySelector('.result-figures').replaceChildren(list);
    card
      .querySelector('.result-links')
      .replaceChildren(...links.flatMap(([label, href]) => [element('a', { href, textContent: label }), ' ']));
  }

  function showError(card, message) {
    const notice = element('div', { className: 'notice bad', textContent: message });
    notice.setAttribute('role', 'alert');
    card.querySelector('.result-error').replaceChildren(notice);
  }

  const files = document.querySelector('#image-files');
  if (files) {
    files.hidden = false;
    files.querySelector('input').addEventListener('change', async (event) => {
      const input = event.target;
      for (const file of input.files) await attach(file);
      input.value = '';
    });
  }

  async function attach(file) {
    const url = await new Promise((resolve, reject) => {
      const reader = new FileReader();
      reader.onload = () => resolve(reader.result);
      reader.onerror = () => reject(reader.error);
      reader.readAsDataURL(file);
    });
    const attached = [...form.querySelectorAll('[name="image"], [name="turn_images"]')].reduce(
      (sum, { value }) => sum + value.length,
      url.length,
    );
    const item = element('li', {});
    if (attached > maxImageCharacters)
      item.append(element('p', { className: 'error', textContent: `${file.name} is too large: all images together may have 7 MB.` }));
    else {
      item.append(element('img', { src: url, alt: file.name }), element('input', { type: 'hidden', name: 'image', value: url }));
      addRemove(item);
    }
    pictures.append(item);
  }

  function addRemove(item) {
    const remove = element('button', { type: 'button', className: 'button small plain', textContent: 'Remove' });
    remove.setAttribute('aria-label', `Remove ${item.querySelector('img').alt}`);
    remove.addEventListener('click', () => item.remove());
    item.append(remove);
  }
  for (const item of pictures?.children ?? []) addRemove(item);

  // Every key press sends the form to update the code. Leave out image files, because the code only has a placeholder
  // for them.
  form?.addEventListener('htmx:config:request', ({ detail }) => {
    const body = detail.ctx?.request?.body;
    if (!(body instanceof FormData)) return;
    for (const name of ['answer_text', 'answer_calls']) body.delete(name);
    const images = body.getAll('image');
    body.delete('image');
    for (const url of images) body.append('image', String(url).replace(/^(data:[^,]*,).*$/s, '$1AAAA'));
  });

  function element(name, properties) {
    return Object.assign(document.createElement(name), properties);
  }
}
