from tests.ui.conftest import repo

__all__ = ["repo"]
