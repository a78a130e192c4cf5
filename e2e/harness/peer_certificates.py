"""Certificates of a pool's peers in place of the operator's, as data of their Secret."""

from __future__ import annotations

import base64
import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_USES = [x509.ExtendedKeyUsageOID.SERVER_AUTH, x509.ExtendedKeyUsageOID.CLIENT_AUTH]
_DAY_S = 86400


def _data(thing: bytes) -> str:
    return base64.b64encode(thing).decode()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _builder(name: x509.Name, key: ec.EllipticCurvePrivateKey, ago_s: float, left_s: float):
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(seconds=ago_s))
        .not_valid_after(now + datetime.timedelta(seconds=left_s))
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def authority() -> dict[str, str]:
    """ca.crt and ca.key. A day old: the operator renews certificates of no younger authority than
    ten minutes."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("larder peers authority")
    made = (
        _builder(name, key, _DAY_S, 365 * _DAY_S)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return {
        "ca.crt": _data(made.public_bytes(serialization.Encoding.PEM)),
        "ca.key": _data(_pem(key)),
    }


def certificate(held: dict[str, str], name: str, life_s: float) -> dict[str, str]:
    """tls.crt and tls.key with this DNS name, of the authority in the Secret's data `held`."""
    issuer = x509.load_pem_x509_certificate(base64.b64decode(held["ca.crt"]))
    signer = serialization.load_pem_private_key(base64.b64decode(held["ca.key"]), None)
    key = ec.generate_private_key(ec.SECP256R1())
    made = (
        _builder(_name("larder peers"), key, 0, life_s)
        .issuer_name(issuer.subject)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage(_USES), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return {
        "tls.crt": _data(made.public_bytes(serialization.Encoding.PEM)),
        "tls.key": _data(_pem(key)),
    }
