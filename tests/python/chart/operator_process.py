"""larder-operator, run like the chart's pod: the arguments and the account of the installed chart,
on this machine."""

import contextlib
import os
import socket
import time
import urllib.request

import programs
import yaml
from harness.process import Process


def program():
    return programs.Path(os.environ["LARDER_TEST_BIN"]) / "larder-operator"


def own_address():
    """An address of this machine other than loopback, which no EndpointSlice may have; None without
    such an address."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as asking:
        try:
            asking.connect(("192.0.2.1", 9))  # sends no packet
            return asking.getsockname()[0]
        except OSError:
            return None


def free_ports(count):
    held = [socket.create_server(("0.0.0.0", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def kubeconfig_of(cluster, folder):
    """The kubeconfig of the chart's own account, by a token like that of its pods."""
    token = cluster.kubectl(
        "create", "token", "larder-operator", "-n", "larder-system", "--duration=1h"
    ).strip()
    given = yaml.safe_load(programs.Path(cluster.env["KUBECONFIG"]).read_text())
    given["users"] = [{"name": given["users"][0]["name"], "user": {"token": token}}]
    path = folder / "operator.kubeconfig"
    path.write_text(yaml.safe_dump(given))
    return path


def endpoint(address, port):
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "larder-webhook-1",
            "namespace": "larder-system",
            "labels": {"kubernetes.io/service-name": "larder-webhook"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


@contextlib.contextmanager
def running(cluster, folder):
    """The operator of the chart installed as `larder`, ready, with its webhook reachable by the API
    server."""
    address = own_address()
    webhook, metrics, health = free_ports(3)
    manifest = cluster.helm("get", "manifest", "larder", "-n", "larder-system")
    (container,) = programs.the(manifest, "Deployment")["spec"]["template"]["spec"]["containers"]
    arguments = [one for one in container["args"] if "-address=" not in one]
    arguments += [
        f"--webhook-address={address}:{webhook}",
        f"--metrics-address=127.0.0.1:{metrics}",
        f"--health-address=127.0.0.1:{health}",
    ]
    arguments += [f"--kubeconfig={kubeconfig_of(cluster, folder)}"]
    env = {**os.environ, "POD_NAME": "larder-operator-0", "POD_NAMESPACE": "larder-system"}
    cluster.kubectl("apply", "-f", "-", stdin=endpoint(address, webhook))
    with Process(
        "larder-operator", [str(program()), *arguments], env, folder / "operator.log"
    ) as process:
        process.wait_until(lambda: answers(f"http://127.0.0.1:{health}/readyz"), 60)
        yield process
