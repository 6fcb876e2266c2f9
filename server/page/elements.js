// Makes elements of the page. Text from outside never becomes markup.

/** make makes an element with attributes and children: elements or texts. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, given] of Object.entries(attributes)) {
    if (given === true) element.setAttribute(key, '');
    else if (given !== false && given !== undefined) element.setAttribute(key, given);
  }
  element.append(...children.filter(child => child !== ''));
  return element;
}

/** byId returns an element of the page. */
export function byId(id) {
  return document.getElementById(id);
}

/** setText sets an element's text, unless it is unchanged. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** setAttr sets an attribute, or removes it if it is not given. */
export function setAttr(element, name, given) {
  if (given) element.setAttribute(name, given === true ? '' : given);
  else element.removeAttribute(name);
}

/** setPressed marks the button of a group whose data has a value as pressed. */
export function setPressed(group, name, value) {
  for (const button of byId(group).querySelectorAll('button')) button.setAttribute('aria-pressed', String(button.dataset[name] === value));
}

/** swatch makes a small field in the colour of an outcome. */
export function swatch(outcome) {
  return make('span', { class: 'swatch', 'data-outcome': outcome, 'aria-hidden': 'true' });
}
