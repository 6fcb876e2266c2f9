// Makes elements of the page. Text from outside never becomes markup.

/** make makes an element with attributes and children; a child that is no element becomes text. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, given] of Object.entries(attributes)) {
    if (given === true) element.setAttribute(key, '');
    else if (given !== false && given !== undefined) element.setAttribute(key, given);
  }
  element.append(...children.filter(child => child !== ''));
  return element;
}

/** byId finds an element of the page. */
export function byId(id) {
  return document.getElementById(id);
}

/** say changes an element's text, if it is another. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** flag sets an attribute, or removes it. */
export function flag(element, name, given) {
  if (given) element.setAttribute(name, given === true ? '' : given);
  else element.removeAttribute(name);
}

/** press shows which button of a group is chosen: that whose data has a value. */
export function press(group, name, value) {
  for (const button of byId(group).querySelectorAll('button')) button.setAttribute('aria-pressed', String(button.dataset[name] === value));
}

/** swatch is a small field in the colour of an outcome. */
export function swatch(outcome) {
  return make('span', { class: 'swatch', 'data-outcome': outcome, 'aria-hidden': 'true' });
}
