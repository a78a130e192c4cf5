"""One OpenAI-compatible server, such as vLLM: address, API key, and the authority of its
certificate.

All tools reach such a server through Server. Uses the standard library only. Thread-safe: each
request has a connection of its own."""

import contextlib
import http.client
import json
import os
import ssl
import urllib.parse

# Without --api-key, the first of these variables that is set gives the key.
KEY_VARIABLES = ("VLLM_API_KEY", "OPENAI_API_KEY")
_KEY_FROM = "--api-key KEY, VLLM_API_KEY or OPENAI_API_KEY"
# Remedies by OpenSSL's number of a refused certificate (X509_V_ERR_...).
_OTHER_AUTHORITY = "; --cacert FILE names the authority to trust"
_OTHER_NAME = "; use a name in --url for which the certificate is made"
_REMEDIES = {
    **dict.fromkeys((2, 18, 19, 20, 21), _OTHER_AUTHORITY),
    **dict.fromkeys((62, 64), _OTHER_NAME),
}


class ServerError(Exception):
    """The server refused or broke off; the text is the server's own, in one line."""


class NoServer(ServerError):
    """No HTTP server answers at the URL."""


class NotUsable(ServerError):
    """The URL, the key or the file of an authority cannot be used, or the server does not prove its
    identity. The text names the remedy."""


class Server:
    def __init__(self, url, api_key=None, cacert=None):
        """api_key: None takes the key of KEY_VARIABLES. cacert: a PEM file with the authorities to
        trust instead of the system's. NotUsable."""
        self.url = url
        parts = _split(url)
        self._place, self._secure = parts.netloc, parts.scheme == "https"
        # Users of OpenAI's clients give the URL with /v1.
        self._path = parts.path.rstrip("/").removesuffix("/v1")
        self._trusted = self._trust(cacert)
        self._headers = {"Content-Type": "application/json"}
        self._key_from, key = _key(api_key)
        if key:
            self._headers["Authorization"] = f"Bearer {key}"

    @classmethod
    def at(cls, place):
        """place: a Server, or a URL."""
        return place if isinstance(place, cls) else cls(place)

    def _trust(self, cacert):
        if cacert and not self._secure:
            raise NotUsable(f"--cacert is for https://, and {self.url} is not")
        if not self._secure:
            return None
        try:
            return ssl.create_default_context(cafile=cacert or None)
        except OSError as error:  # ssl.SSLError is one
            raise NotUsable(
                f"--cacert {cacert}: {_reason(error)}; give a PEM file of the server's authority"
            ) from None

    @contextlib.contextmanager
    def request(self, method, path, body=None, timeout_s=30):
        """The response to one request, while the context lasts. ServerError unless the status is
        200."""
        what = f"{method} {self.url}{path}"
        connection = self._connection(what, timeout_s)
        try:
            yield self._answer(connection, what, method, path, body)
        except http.client.HTTPException as error:  # IncompleteRead
            raise ServerError(f"{what}: the answer broke off ({error})") from None
        finally:
            connection.close()

    def _connection(self, what, timeout_s):
        try:
            if self._secure:
                return http.client.HTTPSConnection(
                    self._place, timeout=timeout_s, context=self._trusted
                )
            return http.client.HTTPConnection(self._place, timeout=timeout_s)
        except http.client.InvalidURL as error:
            raise NoServer(f"{what}: {error}") from None

    def _answer(self, connection, what, method, path, body):
        payload = None if body is None else json.dumps(body)
        try:
            connection.request(method, self._path + path, payload, self._headers)
            response = connection.getresponse()
        except ssl.SSLCertVerificationError as error:
            raise NotUsable(
                f"{what}: {_reason(error)}{_REMEDIES.get(error.verify_code, '')}"
            ) from None
        except ssl.SSLError as error:
            raise NotUsable(
                f"{what}: no TLS with this server ({_reason(error)}); where it has none, "
                "its URL begins with http://"
            ) from None
        # ValueError: the path cannot stand in a request
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoServer(f"{what}: {str(error).strip()}{self._about_tls(error)}") from None
        if response.status != 200:
            text = " ".join(response.read(2000).decode(errors="replace").split())[:500]
            raise ServerError(f"{what}: {response.status} {text}{self._about_key(response.status)}")
        return response

    def _about_tls(self, error):
        """A server with TLS hangs up on a request without TLS."""
        return (
            "; the URL of a server with TLS begins with https://"
            if isinstance(error, ConnectionResetError) and not self._secure
            else ""
        )

    def _about_key(self, status):
        if status != 401:
            return ""
        if self._key_from:
            return f". The server refuses the key of {self._key_from}"
        return f". The server asks for a key: {_KEY_FROM} gives it"


def _split(url):
    try:
        parts = urllib.parse.urlsplit(url if "//" in url else f"http://{url}")
    except ValueError as error:
        raise NotUsable(f"{url}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise NotUsable(f"{url}: a server's URL begins with http:// or https:// and its name")
    if "@" in parts.netloc:
        raise NotUsable(f"a server's URL has no user and password; {_KEY_FROM} gives a key")
    return parts


def _key(given):
    """(the source of the key, the key). An empty `given` is no key, even if a variable is set."""
    places = (
        [("--api-key", given)]
        if given is not None
        else [(name, os.environ.get(name)) for name in KEY_VARIABLES]
    )
    name, key = next(((name, key.strip()) for name, key in places if key and key.strip()), ("", ""))
    if not key.isascii() or not key.isprintable() or " " in key:
        raise NotUsable(
            f"the key of {name} has a character that a header cannot carry: letters, "
            "digits and signs of ASCII, no blank"
        )
    return name, key


def _reason(error):
    """The reason without the number and the line of Python's source."""
    return (
        getattr(error, "verify_message", "")
        or getattr(error, "reason", "")
        or error.strerror
        or str(error)
    )
