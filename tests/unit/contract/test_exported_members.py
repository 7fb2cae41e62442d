"""Names that programs import."""

from __future__ import annotations

import mn_contract


def test_the_contract_exports_what_it_says() -> None:
    assert mn_contract.__all__ == ["ContextError", "digest", "encoded"]
    assert all(hasattr(mn_contract, name) for name in mn_contract.__all__)
