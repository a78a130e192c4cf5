"""HOST:PORT of a service. Pure."""

import re


def host_and_port(text):
    """(host, port) of HOST:PORT; an IPv6 address stands in brackets. Raises ValueError."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9_.-]+):(\d{1,5})", text)
    if not match or not 1 <= int(match[2]) <= 65535:
        raise ValueError(f"'{text}' is not HOST:PORT")
    return match[1].strip("[]"), int(match[2])


def place_of(url, scheme):
    """HOST:PORT of SCHEME://HOST:PORT. Raises ValueError with the remedy."""
    found, _, place = url.partition("://")
    if found != scheme or not place:
        raise ValueError(f"backend.url is '{url}', not {scheme}://HOST:PORT")
    try:
        host_and_port(place)
    except ValueError as error:
        raise ValueError(f"backend.url: {error}") from error
    return place
