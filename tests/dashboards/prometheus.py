"""A real Prometheus with Larder's rules over a test's targets, and questions to that Prometheus."""

import json
import math
import urllib.error
import urllib.parse
import urllib.request

import yaml
from harness.process import Process
from harness.redis import program
from harness.vllm_server import free_port


class Prometheus(Process):
    """`jobs`: a list of scrape configs. Scrapes and evaluates each second."""

    def __init__(self, folder, jobs, rules):
        self.url = f"http://127.0.0.1:{free_port()}"
        each = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "prometheus.yaml"
        config.write_text(
            yaml.safe_dump({"global": each, "scrape_configs": jobs, "rule_files": [str(rules)]})
        )
        listen = self.url.removeprefix("http://")
        command = [
            program("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address={listen}",
        ]
        super().__init__("prometheus", command, {}, folder / "prometheus.log")
        self.wait_until(
            lambda: urllib.request.urlopen(self.url + "/-/ready", timeout=5).status == 200, 60
        )

    def ask(self, path, **query):
        """`data` of an answer. AssertionError: Prometheus refuses; the text is Prometheus's own."""
        url = f"{self.url}/api/v1/{path}?" + urllib.parse.urlencode(query, doseq=True)
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refused:
            raise AssertionError(f"{query}: {refused.read().decode()}") from refused

    def now(self, expression):
        """[(labels, value)] of the series with a number."""
        found = (
            (one["metric"], float(one["value"][1]))
            for one in self.ask("query", query=expression)["result"]
        )
        return [(labels, value) for labels, value in found if math.isfinite(value)]

    def over(self, expression, start, end, step):
        """[(labels, [(time, value)])] of the series with a number at any time."""
        found = []
        for one in self.ask("query_range", query=expression, start=start, end=end, step=step)[
            "result"
        ]:
            values = [
                (float(time), float(value))
                for time, value in one["values"]
                if math.isfinite(float(value))
            ]
            if values:
                found.append((one["metric"], values))
        return found
