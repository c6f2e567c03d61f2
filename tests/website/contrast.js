// Returns the visible texts whose contrast with their background misses WCAG AA: 4.5 : 1, or 3 : 1 for large texts.
() => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const colour = (css) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = css;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return { rgb: [r, g, b], alpha: a / 255 };
  };
  const over = (top, alpha, below) => top.map((value, i) => value * alpha + below[i] * (1 - alpha));
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ancestors = (element) => (element ? [element, ...ancestors(element.parentElement)] : []);
  const background = (element) =>
    ancestors(element)
      .map((each) => colour(getComputedStyle(each).backgroundColor))
      .reverse()
      .reduce((below, { rgb, alpha }) => over(rgb, alpha, below), [255, 255, 255]);
  const left_out = "svg, math, script, style, noscript, [aria-hidden=true], .md-clipboard";

  const found = new Map();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.textContent.trim();
    const element = texts.currentNode.parentElement;
    const box = element.getBoundingClientRect();
    const visible = element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    if (!text || !visible || box.width < 2 || box.height < 2 || element.closest(left_out)) continue;
    const style = getComputedStyle(element);
    const opacity = ancestors(element).reduce((product, each) => product * getComputedStyle(each).opacity, 1);
    const { rgb, alpha } = colour(style.color);
    const below = background(element);
    const [dark, light] = [luminance(over(rgb, alpha * opacity, below)), luminance(below)].sort((a, b) => a - b);
    const contrast = (light + 0.05) / (dark + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (contrast < (large ? 3 : 4.5) - 0.01) {
      found.set(`${element.tagName}.${element.className}: ${text.slice(0, 40)}`, contrast.toFixed(2));
    }
  }
  return Object.fromEntries(found);
}
