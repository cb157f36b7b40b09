"""Secrets in commands are masked before anything is kept."""

from __future__ import annotations

import pytest

from islander.cluster.secrets import is_secret_name, without_secrets


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (("--api-key", "s3", "s4", "--port", "80"), ("--api-key", "***", "***", "--port", "80")),
        (("--api-key=s3", "-tp", "2"), ("--api-key=***", "-tp", "2")),
        (("--api_key", "$(API_KEY)"), ("--api_key", "$(API_KEY)")),
        (
            ("sh", "-c", "HF_TOKEN=s3 vllm serve m --api-key 's 3' -tp 2"),
            ("sh", "-c", "HF_TOKEN=*** vllm serve m --api-key *** -tp 2"),
        ),
        (
            ("sh", "-c", "vllm serve --api-key $KEY --hf-token=s3;ls"),
            ("sh", "-c", "vllm serve --api-key $KEY --hf-token=***;ls"),
        ),
        (
            ("--tokenizer", "m", "--max-num-batched-tokens", "8192"),
            ("--tokenizer", "m", "--max-num-batched-tokens", "8192"),
        ),
        (("sh", "-c", "# the token is hidden\nrun"), ("sh", "-c", "# the token is hidden\nrun")),
        (("--password", "--port", "80"), ("--password", "--port", "80")),
    ],
)
def test_values_of_secret_flags_and_variables_are_masked(words: tuple[str, ...], kept: tuple[str, ...]) -> None:
    assert without_secrets(words) == kept


@pytest.mark.parametrize(
    ("name", "expected"), [("API_KEY", True), ("HF_TOKEN", True), ("TP_SIZE", False), ("TOKENIZER", False)]
)
def test_names_of_secrets_are_known(name: str, expected: bool) -> None:
    assert is_secret_name(name) is expected
