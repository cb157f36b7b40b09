"""Keys, tokens and kubeconfig files of a throw-away control plane."""

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the API server needs to know who asks: the service accounts' key pair and the administrator's token."""

    private_key: Path
    public_key: Path
    token_file: Path
    admin_token: str


def make_credentials(folder: Path) -> Credentials:
    """Write fresh keys and a token file into `folder`."""
    key = ec.generate_private_key(ec.SECP256R1())
    private_key = folder / "sa.key"
    private_key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    public_key = folder / "sa.pub"
    public_key.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM,
            serialization.PublicFormat.SubjectPublicKeyInfo,
        )
    )
    token = secrets.token_hex(16)
    token_file = folder / "tokens.csv"
    token_file.write_text(f'{token},admin,admin,"system:masters"\n')
    return Credentials(private_key, public_key, token_file, token)


def write_kubeconfig(file: Path, server: str, ca_file: Path, token: str) -> Path:
    """Write a kubeconfig with one context that asks `server` with `token`; an empty token asks as nobody."""
    name = "testbench"
    user: dict[str, Any] = {"token": token} if token else {}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority": str(ca_file)}}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    file.write_text(json.dumps(config, indent=2))
    file.chmod(0o600)
    return file
