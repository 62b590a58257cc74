// Moves, adds and removes models of a tier in the browser. Without this script, the server does it.
const labelOf = (list, index) => list.closest('.tier').querySelector('input').value || index;
const relabel = (list) => {
  const tier = `tier ${labelOf(list, [...document.querySelectorAll('.tier')].indexOf(list.closest('.tier')) + 1)}`;
  for (const [index, row] of [...list.children].entries()) {
    row.querySelector('input').setAttribute('aria-label', `Model ${index + 1} of ${tier}`);
    const texts = { up: `Move model ${index + 1} of ${tier} up`, down: `Move model ${index + 1} of ${tier} down` };
    for (const button of row.querySelectorAll('[data-arrange]')) {
      const { arrange } = button.dataset;
      button.querySelector('.hidden').textContent = texts[arrange] ?? `Remove model ${index + 1} of ${tier}`;
      button.value = button.value.replace(/\d+$/, index);
    }
  }
};
const clear = (row) => {
  row.classList.remove('invalid');
  const input = row.querySelector('input');
  for (const attribute of ['aria-invalid', 'aria-describedby']) input.removeAttribute(attribute);
  for (const note of row.querySelectorAll('.error, .tier-mark')) note.remove();
  return input;
};
const addRow = (list) => {
  const row = list.lastElementChild.cloneNode(true);
  const input = clear(row);
  input.value = '';
  input.id = `${list.closest('.tier').id}.models.${crypto.randomUUID?.() ?? Math.random()}`;
  list.append(row);
  return input;
};
document.addEventListener('click', (event) => {
  const button = event.target.closest('[data-arrange]');
  if (!button) return;
  const list = button.closest('.tier').querySelector('.tier-models');
  const row = button.closest('li');
  event.preventDefault();
  let focused = button;
  if (button.dataset.arrange === 'add') focused = addRow(list);
  else if (button.dataset.arrange === 'up') row.previousElementSibling?.before(row);
  else if (button.dataset.arrange === 'down') row.nextElementSibling?.after(row);
  else {
    const neighbour = row.nextElementSibling ?? row.previousElementSibling;
    if (list.children.length === 1) addRow(list);
    row.remove();
    focused = neighbour?.querySelector('input') ?? list.querySelector('input');
  }
  relabel(list);
  focused.focus();
});
// The badge and the error next to a model belong to the old value, so remove them as soon as somebody edits the field.
document.addEventListener('input', (event) => {
  if (event.target.matches('.tier-model input')) clear(event.target.closest('li'));
});
