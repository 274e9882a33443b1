"""Whether the text of a page can be told from what is behind it (WCAG 2.2, 1.4.3)."""

from __future__ import annotations

from typing import Any

_FAINT = """least => {
  const parts = (colour) => {  // rgb(…) of 0 to 255, color(srgb …) of 0 to 1
    const [r, g, b, a] = colour.match(/[\\d.]+/g).map(Number), most = colour.startsWith("color") ? 255 : 1;
    return [r * most, g * most, b * most, a ?? 1];
  };
  const over = (top, under) => under.map((value, n) => top[n] * top[3] + value * (1 - top[3]));
  const light = (colour) => {
    const [r, g, b] = colour.map((value) => value / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || element.disabled || element.closest("svg") || !element.checkVisibility()) continue;
    let behind = [255, 255, 255];
    const layers = [];
    for (let node = element; node; node = node.parentElement) layers.unshift(getComputedStyle(node).backgroundColor);
    for (const layer of layers) behind = over(parts(layer), behind);
    const [one, other] = [light(over(parts(getComputedStyle(element).color), behind)), light(behind)].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    if (ratio < least) found.push(`${element.tagName}.${element.className} ${ratio.toFixed(2)}: ${element.textContent.slice(0, 40)}`);
  }
  return found;
}"""  # noqa: E501


def faint(page: Any, least: float = 4.5) -> list[str]:
    """Visible elements whose text is nearer to its background than it may be, but for disabled ones and pictures."""
    found: list[str] = page.evaluate(_FAINT, least)
    return found
