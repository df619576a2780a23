"""report.html and report.md: complete, self-contained, and safe to open."""

import base64
import hashlib
import html.parser
import re
from pathlib import Path

import contilab.report


class Outline(html.parser.HTMLParser):
    """Reads a page strictly: every element is closed in order, identifiers are unique, attributes are kept."""

    VOID = ("meta", "link", "br", "wbr", "img", "hr", "input")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.attributes, self.faults = [], [], [], [], []
        self.feed(text)
        self.close()
        self.faults += self.open

    def handle_starttag(self, tag, attrs):
        """Note an element."""
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """Note an element that closes itself, as in SVG."""
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        """Close the innermost element; another name is a fault."""
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"/{tag}")


class TestPage:
    """report.html."""

    def test_it_is_well_formed(self, page):
        """Elements nest, no identifier occurs twice, and the page says its language."""
        outline = Outline(page)

        assert outline.faults == []
        assert len(outline.ids) == len(set(outline.ids))
        assert ("html", "lang", "en") in outline.attributes

    def test_it_loads_nothing(self, page):
        """No element names a place outside the page, no style imports one, and the policy forbids the rest."""
        outline = Outline(page)
        links = [value for _, name, value in outline.attributes if name in ("src", "href", "xlink:href", "data", "action")]

        assert {"iframe", "link", "object", "img"}.isdisjoint(outline.tags)
        assert all(value.startswith("#") for value in links)
        assert not re.search(r"@import|url\((?!#)", page)

    def test_only_our_script_runs(self, page):
        """There is one script, the one of the package, and the policy of the page names its digest and no other."""
        [script] = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        [policy] = [value for _, name, value in Outline(page).attributes if name == "content" and "default-src" in value]

        assert script == (Path(contilab.report.__file__).parent / "report.js").read_text()
        assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"

    def test_values_of_the_seeds_stand_behind_a_mean(self, page):
        """A mean carries the value of each seed, with the reason of those that have none, and the number it sorts by."""
        titles = [value for tag, name, value in Outline(page).attributes if (tag, name) == ("td", "title")]

        assert "seed 0: 0.7910\nseed 1: the run diverged in task 2 at step 40\nseed 2: 0.7710" in titles
        assert 'data-sort="0.781"' in page

    def test_data_stand_with_their_benchmark(self, page):
        """Each benchmark names its data, so that other files are seen, and what was trained for how long."""
        assert page.count("seeds; data: synthetic; model: mlp; optimiser: sgd; epochs: 1. ") == 2

    def test_tests_stand_with_their_family(self, page):
        """Comparisons name baseline, metric, size of the family and what their seeds allow."""
        assert "acc, each method minus naive, paired by seed; one Holm family of 3 tests." in page
        assert "none can be significant at .05 after Holm: 3 tests need 7 seeds" in page
        assert "cannot be significant" in page

    def test_sections_tell_what_was_run_and_what_to_mind(self, page):
        """Plan, data and circumstances stand with the runs behind them; what limits the numbers has a section of its own."""
        assert "synthetic, SHA-256 " + "0" * 64 in page
        assert "fp32 (13 runs)" in page
        assert "1 diverged" in page
        assert "Too few seeds: no test of these tables can reach .05 after Holm" in page

    def test_texts_of_a_study_stay_texts(self, page):
        """A manifest, a setting and an error that hold HTML are shown as they are written."""
        assert "&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;" in page
        assert "<i>no</i>" not in page
        assert "<b>$x$" not in page

    def test_figures_say_what_they_show(self, page):
        """Each drawing is an image with a description in words that holds its numbers."""
        outline = Outline(page)
        said = [value for tag, name, value in outline.attributes if tag == "svg" and name == "aria-label"]

        assert len(said) == 8
        assert "naive from 0.97 to 0.34" in said[0]
        assert all(("svg", "role", "img") in outline.attributes for _ in said)

    def test_runs_without_a_value_are_named(self, page):
        """Diverged, damaged and waiting runs stand at the top with their reasons."""
        named = [
            "1 of 17 runs diverged",
            "tiny_class, er, seed 1: non-finite loss in task 2 at step 40",
            "2 of 17 runs have no result: waiting",
            "ValueError: &lt;i&gt;no&lt;/i&gt;",
            "record.jsonl is not what was published",
            "its result is incomplete",
            "tiny_task, naive, seed 1",
        ]

        assert [text for text in named if text not in page] == []

    def test_seeds_behind_each_value_are_counted(self, page):
        """A cell that lost a seed says so beside its mean, and the table says what its seeds allow to be claimed."""
        assert "n 2 of 3" in page
        assert "No difference in this table can be significant at .05" in page

    def test_mixed_versions_are_marked(self, page):
        """The cell whose seeds were trained under two versions of torch carries both, each with its seeds."""
        assert "mixed: torch 2.6.0 (seeds 0-1) and 2.7.1 (seed 2)" in page

    def test_the_way_back_is_there(self, page):
        """Values of the command line, versions and the protocol of each cell are in the page."""
        assert "contilab plan tiny.toml train.epochs=1 &#39;matrix.seed=[0, 1, 2]&#39;" in page
        assert "torch 2.6.0, 2.7.1" in page
        assert "<code>method.strength = 10.0</code>" in page

    def test_scenarios_have_their_own_tables(self, page):
        """Each section holds results of one scenario and says which."""
        about = re.findall(r'<p class="about">synthetic, (\w+)-incremental', page)

        assert about == ["class", "task"]


class TestMarkdown:
    """report.md."""

    def test_it_holds_tables_figures_and_manifest(self, written):
        """The same content as the page, with figures as files beside it."""
        text = (written.directory / "report.md").read_text()
        figures = re.findall(r"\]\((figures/[^)]*\.svg)\)", text)

        assert len(figures) == 8
        assert all((written.directory / name).is_file() for name in figures)
        assert "| naive (mixed: torch 2.6.0 (seeds 0-1) and 2.7.1 (seed 2)) |" in text
        assert "\n- (a) one row only\n" in text

    def test_texts_of_a_study_stay_texts(self, written):
        """Outside the fenced manifest nothing of a study is read as HTML or as a table."""
        text = (written.directory / "report.md").read_text().split("## Reproduce")[0]

        assert "<script>" not in text
        assert r"&lt;b&gt;\$x\$\|" in text
