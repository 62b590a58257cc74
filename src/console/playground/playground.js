// Streams the responses of one or two models into the page. Without this script, the form only shows them once they're
// complete.
{
  const form = document.querySelector('#playground');
  const stop = document.querySelector('#stop');
  const results = document.querySelector('#results');
  const template = document.querySelector('#result');
  let running = null;

  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    running?.abort();
    const controller = new AbortController();
    running = controller;
    const fields = new URLSearchParams(new FormData(form));
    const models = [fields.get('model'), fields.get('other')].filter(Boolean);
    results.replaceChildren(...models.map(newCard));
    stop.hidden = false;
    form.setAttribute('aria-busy', 'true');
    await Promise.all(models.map((model, index) => run(model, fields, results.children[index], controller.signal)));
    if (running !== controller) return;
    stop.hidden = true;
    form.removeAttribute('aria-busy');
  });
  stop.addEventListener('click', () => running?.abort());
  form.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });

  function newCard(model) {
    const card = template.content.cloneNode(true);
    card.querySelector('.result-model').textContent = model;
    card.querySelector('.result-text').replaceChildren();
    return card;
  }

  async function run(model, fields, card, signal) {
    const body = new URLSearchParams(fields);
    body.set('model', model);
    const text = card.querySelector('.result-text');
    card.setAttribute('aria-busy', 'true');
    try {
      const response = await fetch(form.dataset.stream, { method: 'POST', body, signal, headers: { 'hx-request': 'true' } });
      if (response.headers.has('hx-redirect')) location.assign(response.headers.get('hx-redirect'));
      else if (!response.ok) showError(card, new DOMParser().parseFromString(await response.text(), 'text/html').body.textContent.trim());
      else
        for await (const event of readEvents(response.body)) {
          if (event.name === 'text') text.append(event.data.text);
          else showEnd(card, event.data);
        }
    } catch (error) {
      if (error.name === 'AbortError') text.append(' (stopped)');
      else showError(card, 'The connection was lost.');
    }
    card.removeAttribute('aria-busy');
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

  function showEnd(card, { error, figures, href }) {
    if (error !== null) showError(card, error);
    const list = element('dl', { className: 'definitions' });
    for (const [label, value] of figures) {
      const item = element('div', {});
      item.append(element('dt', { textContent: label }), element('dd', { textContent: value }));
      list.append(item);
    }
    const link = element('p', {});
    if (href !== null) link.append(element('a', { href, textContent: 'Show the call' }));
    card.querySelector('.result-figures').replaceChildren(list, link);
  }

  function showError(card, message) {
    const notice = element('div', { className: 'notice bad', textContent: message });
    notice.setAttribute('role', 'alert');
    card.querySelector('.result-error').replaceChildren(notice);
  }

  function element(name, properties) {
    return Object.assign(document.createElement(name), properties);
  }
}
