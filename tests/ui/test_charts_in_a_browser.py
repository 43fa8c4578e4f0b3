"""The charts of the pages, with long names, small and large numbers: no words leave a chart, and none meet others.

The browser says where each text is; matplotlib's pictures are held to the same in tests/formatting/test_plots.py.
"""

import pytest

pytestmark = pytest.mark.browser

LONG = "Wholesale Mutual Bank of Greater Westmoreland and the Whole of the Western Isles, Incorporated"
FAULTS = """() => [...document.querySelectorAll('svg')].flatMap(svg => {
  const frame = svg.getBoundingClientRect(), found = [];
  const words = [...svg.querySelectorAll('text')]
    .filter(text => text.textContent.trim() && getComputedStyle(text).visibility !== 'hidden')
    .map(text => [text.textContent.trim(), text.getBoundingClientRect()])
    .filter(([, box]) => box.width > 0);
  words.forEach(([said, box], i) => {
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
      found.push(`"${said}" leaves ${svg.getAttribute('aria-label') || svg.id || 'its chart'}`);
    for (const [other, there] of words.slice(i + 1)) {
      const across = Math.min(box.right, there.right) - Math.max(box.left, there.left);
      const along = Math.min(box.bottom, there.bottom) - Math.max(box.top, there.top);
      if (across > 1.5 && along > 3) found.push(`"${said}" meets "${other}" by ${across.toFixed(0)} x ${along.toFixed(0)}`);
    }
  });
  return found;
})"""
COUNT = "() => [...document.querySelectorAll('svg text')].filter(text => text.getBoundingClientRect().width > 0).length"


@pytest.mark.parametrize("width", [360, 1280])
def test_charts_of_should_we_join(visitor, width):
    page = visitor.enter()
    page.set_viewport_size({"width": width, "height": 900})
    page.locator("#source").select_option("lending-embedded")
    for i, size in enumerate((150, 2500, 900)):
        owner = page.locator("#owners > li").nth(i)
        owner.locator("input[type=text]").fill(f"{LONG} {i}")
        owner.locator(".records input").fill(str(size))
    for epsilon in (0.01, 3, 1000):
        page.locator("#same").fill(str(epsilon))
        visitor.exactly()
        assert page.evaluate(COUNT) > 5
        assert page.evaluate(FAULTS) == [], f"epsilon = {epsilon}, {width} pixels wide"


@pytest.mark.parametrize("width", [360, 1280])
def test_charts_of_the_gallery(visitor, width):
    page = visitor.enter("gallery")
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate(FAULTS) == []
