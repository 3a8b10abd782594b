"""Every key and metric of the plugins is explained in docs/hdfs.md."""

import glob
import os
import re
import unittest

from tests.test_demo import FOLDER, PAGE


class Page(unittest.TestCase):
    def setUp(self):
        with open(PAGE) as page:
            self.page = page.read()
        self.sources = {}
        for path in glob.glob(os.path.join(FOLDER, "src", "main", "**", "*.java"), recursive=True):
            with open(path) as source:
                self.sources[os.path.basename(path)] = source.read()

    def test_keys(self):
        text = "\n".join(self.sources.values())
        keys = set(re.findall(r'"(suture\.[a-z]+(?:\.[a-z]+)*)"', text))
        self.assertIn("suture.coordinator", keys)
        for key in keys:
            self.assertIn(f"| `{key}` |", self.page)

    def test_metrics(self):
        source = self.sources["PluginMetrics.java"]
        names = re.findall(r"^  Mutable\w+ (\w+);", source, re.MULTILINE)
        names += re.findall(r"public long get(\w+)\(\)", source)
        self.assertEqual(len(names), len(re.findall(r"@Metric\(", source)))
        for name in names:
            self.assertIn(f"`{name[0].upper()}{name[1:]}`", self.page)


if __name__ == "__main__":
    unittest.main()
